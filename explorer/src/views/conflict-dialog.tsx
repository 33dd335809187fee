// Somebody else saved it first: what differs, and who shall win.
import { useSignal } from "@preact/signals";
import { describe } from "../protocol/problem";
import { closeDialog, Dialog } from "./dialog";
import { DiffView } from "./diff-view";

interface Props {
  /** An item by its id, or the model. */
  id: string;
  mine: string;
  theirs: string;
  onTakeTheirs: () => void;
  onEditOn: () => void;
  onOverwrite: () => Promise<void>;
}

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
        Another client has saved it since you opened it. <span class="removed">−</span> is what is stored now,
        {" "}<span class="added">+</span> is yours.
      </p>
      {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
      <DiffView before={theirs} after={mine} />
    </Dialog>
  );
}
