// A user-defined function has no context: all it gets are its arguments, and errors with numbers.

export default describe;
