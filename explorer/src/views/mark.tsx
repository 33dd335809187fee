// The mark: an orrery on its stand, two planets on their arms around a sun.

export function Mark({ size = 24 }: { size?: number }) {
  return (
    <svg class="mark" viewBox="0 0 32 32" width={size} height={size} fill="none" aria-hidden="true">
      <g stroke="currentColor" stroke-width="1.5">
        <ellipse cx="16" cy="13" rx="14" ry="9.5" opacity=".55" />
        <ellipse cx="16" cy="13" rx="8.2" ry="5.4" opacity=".75" />
        <path d="M16 13v14M10.5 29.2h11M12.6 27h6.8" />
        <path d="M16 13 26.4 6.6M16 13 9 15.8" stroke-linecap="round" />
      </g>
      <g fill="currentColor">
        <circle cx="16" cy="13" r="2.9" />
        <circle cx="26.6" cy="6.5" r="2.2" />
        <circle cx="8.8" cy="15.9" r="1.6" />
      </g>
    </svg>
  );
}
