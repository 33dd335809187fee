export function MetricsView(_: object) { return null; }
