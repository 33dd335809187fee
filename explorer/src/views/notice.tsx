// Short messages in a corner: what was done, or what went wrong where no form can say it.
import { signal } from "@preact/signals";
import { describe } from "../protocol/problem";
import { Icon } from "./icon";

interface Notice {
  number: number;
  text: string;
  isProblem: boolean;
}

const notices = signal<readonly Notice[]>([]);
let count = 0;

const DONE_MS = 3500;

function add(text: string, isProblem: boolean): void {
  const number = ++count;
  notices.value = [...notices.value.slice(-1), { number, text, isProblem }];
  if (!isProblem) setTimeout(() => dismiss(number), DONE_MS);
}

function dismiss(number: number): void {
  notices.value = notices.value.filter((notice) => notice.number !== number);
}

export const notifyDone = (text: string) => add(text, false);
export const notifyProblem = (error: unknown) => add(describe(error), true);

export function NoticeHost() {
  return (
    <div class="notices" aria-live="polite">
      {notices.value.map(({ number, text, isProblem }) => (
        <div key={number} class={isProblem ? "notice problem" : "notice"} role={isProblem ? "alert" : "status"}>
          <span>{text}</span>
          <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(number)}><Icon name="close" size={12} /></button>
        </div>
      ))}
    </div>
  );
}
