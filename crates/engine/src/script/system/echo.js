// Answers with what it is given.
function echo(value) {
  getContext().getResponse().setBody(value);
}
