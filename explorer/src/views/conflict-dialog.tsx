// Somebody else saved the item first: what differs, and who shall win.
import { useSignal } from "@preact/signals";
import { describe } from "../protocol/problem";
import { diffLines } from "../text/diff";
import { closeDialog, Dialog } from "./dialog";

interface Props {
  id: string;
  mine: string;
  theirs: string;
  onTakeTheirs: () => void;
  onEditOn: () => void;
  onOverwrite: () => Promise<void>;
}

const SIGNS = { same: " ", removed: "−", added: "+" } as const;

export function ConflictDialog({ id, mine, theirs, onTakeTheirs, onEditOn, onOverwrite }: Props) {
  const error = useSignal<string | null>(null);
  const choose = (run: () => void | Promise<void>) => async () => {
    try {
      await run();
      closeDialog();
    } catch (problem) {
      error.value = describe(problem);
    }
  };
  const footer = (
    <>
      <button type="button" onClick={choose(onTakeTheirs)}>Take theirs</button>
      <button type="button" onClick={choose(onEditOn)}>Edit mine further</button>
      <button type="button" class="danger" onClick={choose(onOverwrite)}>Overwrite with mine</button>
      <span class="grow" />
    </>
  );
  return (
    <Dialog title={`${id} was changed meanwhile`} isWide footer={footer}>
      <p>
        Another client has saved this item since you opened it. <span class="removed">−</span> is what is stored now,
        {" "}<span class="added">+</span> is yours.
      </p>
      {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
      <pre class="diff" aria-label="Difference" tabIndex={0}>
        {diffLines(theirs, mine).map(({ kind, text }, index) => (
          <div key={index} class={kind}><span class="sign">{SIGNS[kind]}</span>{text}</div>
        ))}
      </pre>
    </Dialog>
  );
}
