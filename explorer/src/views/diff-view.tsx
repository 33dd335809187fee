// Two texts as one, with what goes and what comes.
import { type DiffLine, diffLines } from "../text/diff";

const SIGNS = { same: " ", removed: "−", added: "+" } as const;
/** Lines that stay the same are shown this far around those that change. */
const AROUND = 3;

interface Props {
  /** Empty where there was nothing. */
  before: string;
  after: string;
  /** Leaves out what is far from any change. */
  isShort?: boolean;
}

export function DiffView({ before, after, isShort }: Props) {
  const lines = before === "" ? after.split("\n").map((text): DiffLine => ({ kind: "added", text })) : diffLines(before, after);
  return (
    <pre class="diff" aria-label="Difference" tabIndex={0}>
      {(isShort ? shortened(lines) : lines).map((line, index) =>
        line === null
          ? <div key={index} class="left-out"><span class="sign">⋯</span></div>
          : <div key={index} class={line.kind}><span class="sign">{SIGNS[line.kind]}</span>{line.text}</div>)}
    </pre>
  );
}

/** Null stands for lines that were left out. */
export function shortened(lines: readonly DiffLine[]): (DiffLine | null)[] {
  const isNear = lines.map((_, at) => lines.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(({ kind }) => kind !== "same"));
  const short: (DiffLine | null)[] = [];
  lines.forEach((line, at) => {
    if (isNear[at]) short.push(line);
    else if (short.at(-1) !== null) short.push(null);
  });
  return short;
}
