// Puts text on the clipboard and says so.
import { notifyDone, notifyProblem } from "./notice";

export async function copyText(text: string, done: string): Promise<void> {
  try {
    // A page that came over plain HTTP from another machine has no clipboard.
    if (!navigator.clipboard) throw new Error(`This page may not use the clipboard over plain HTTP. The text is: ${text}`);
    await navigator.clipboard.writeText(text);
    notifyDone(done);
  } catch (problem) {
    notifyProblem(problem);
  }
}
