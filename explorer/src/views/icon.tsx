// Small line icons, drawn on a grid of 16 with one stroke.

const PATHS = {
  database: "M3 4c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2ZM3 4v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M3 8c0 1.1 2.2 2 5 2s5-.9 5-2",
  container: "M2.5 4.5 8 2l5.5 2.5v7L8 14l-5.5-2.5v-7ZM2.5 4.5 8 7l5.5-2.5M8 7v7",
  items: "M2.5 3.5h11v9h-11zM2.5 6.5h11M2.5 9.5h11M6 6.5v6",
  query: "M2.5 4 6 8l-3.5 4M7.5 12h6",
  feed: "M2 8h2.5l1.5-5 3 10 1.8-5H14",
  settings: "M2 4.5h6M11.5 4.5H14M2 11.5h2.5M8 11.5h6M9.7 2.8v3.4M6.2 9.8v3.4",
  script: "M5.5 2.5C3 2.5 5 7 2.5 8 5 9 3 13.5 5.5 13.5M10.5 2.5C13 2.5 11 7 13.5 8 11 9 13 13.5 10.5 13.5",
  users: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM3 13.5c.3-2.6 2.2-4 5-4s4.7 1.4 5 4",
  model: "M2 2.5h5v4H2zM9 9.5h5v4H9zM4.5 6.5v5H9",
  metrics: "M2.5 13.5v-11M2.5 13.5h11M5 10.5l2.5-3.5 2 1.5L13 4",
  nodes: "M2.5 2.5h11v4.5h-11zM2.5 9h11v4.5h-11zM5 4.8h1M5 11.2h1",
  check: "M3 8.5 6.5 12 13 4.5",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.5 6v-3.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  close: "M4 4l8 8M12 4l-8 8",
  refresh: "M13 8a5 5 0 1 1-1.5-3.6M13 2v3h-3",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9",
  chevron: "M6 4l4 4-4 4",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  sun: "M8 10.8A2.8 2.8 0 1 0 8 5.2a2.8 2.8 0 0 0 0 5.6ZM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z",
  half: "M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM8 2.5v11M8 5h4.5M8 8h5.5M8 11h4.5",
  leave: "M9.5 2.5h-6v11h6M6.5 8H14M11.5 5.5 14 8l-2.5 2.5",
  left: "M10 3 5 8l5 5",
  right: "M6 3l5 5-5 5",
  run: "M4.5 2.5v11l9-5.5-9-5.5Z",
  stop: "M4 4h8v8H4z",
  download: "M8 2.5v8M4.5 7.5 8 11l3.5-3.5M3 13.5h10",
  upload: "M8 11V3M4.5 6 8 2.5 11.5 6M3 13.5h10",
  save: "M2.5 2.5h9l2 2v9h-11zM5 2.5v4h5v-4M5 13.5v-4h6v4",
  copy: "M5.5 5.5h8v8h-8zM3 10.5h-.5v-8h8V3",
  columns: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  pause: "M5 3v10M11 3v10",
  alert: "M8 2 14.5 13.5h-13L8 2ZM8 6.5v3.5M8 11.8v.4",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 14 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
      <path d={PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.3" stroke-linejoin="round" stroke-linecap="round" />
    </svg>
  );
}
