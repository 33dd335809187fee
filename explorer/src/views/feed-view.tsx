export function FeedView(_: object) { return null; }
