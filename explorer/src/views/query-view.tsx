export function QueryView(_: object) { return null; }
