export function ScriptView(_: object) { return null; }
