// Modal dialogs: the browser's own, one at a time; Escape closes, focus returns where it was.
import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { describe } from "../protocol/problem";
import { Icon } from "./icon";

const content = signal<ComponentChildren>(null);

export function openDialog(children: ComponentChildren): void {
  content.value = children;
}

export function closeDialog(): void {
  content.value = null;
}

export function DialogHost() {
  return <>{content.value}</>;
}

interface Props {
  title: string;
  /** The button that does it; without one the dialog only shows something. */
  action?: string;
  isDangerous?: boolean;
  isWide?: boolean;
  onSubmit?: () => Promise<void>;
  onClose?: () => void;
  footer?: ComponentChildren;
  children: ComponentChildren;
}

export function Dialog({ title, action, isDangerous, isWide, onSubmit, onClose, footer, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const error = useSignal<string | null>(null);
  const isBusy = useSignal(false);

  useEffect(() => {
    const dialog = element.current!;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);

  const dismiss = () => {
    onClose?.();
    closeDialog();
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!onSubmit) return;
    isBusy.value = true;
    error.value = null;
    try {
      await onSubmit();
      closeDialog();
    } catch (problem) {
      error.value = describe(problem);
    } finally {
      isBusy.value = false;
    }
  };

  return (
    <dialog
      ref={element}
      class={isWide ? "wide" : ""}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        dismiss();
      }}
    >
      <form onSubmit={submit} noValidate>
        <header>
          <h2>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={dismiss}><Icon name="close" /></button>
        </header>
        <div class="dialog-body">{children}</div>
        {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
        <footer>
          {footer}
          <button type="button" onClick={dismiss}>{action ? "Cancel" : "Close"}</button>
          {action && (
            <button type="submit" class={isDangerous ? "danger" : "primary"} disabled={isBusy.value}>
              {isBusy.value ? "…" : action}
            </button>
          )}
        </footer>
      </form>
    </dialog>
  );
}

interface DeletionProps {
  what: string;
  name: string;
  consequence: string;
  onDelete: () => Promise<void>;
}

/** What cannot be undone wants the name typed; the button waits for it. */
function Deletion({ what, name, consequence, onDelete }: DeletionProps) {
  const typed = useSignal("");
  return (
    <Dialog
      title={`Delete ${what}`}
      action="Delete"
      isDangerous
      onSubmit={async () => {
        if (typed.value !== name) throw new Error(`Type ${name} to delete it.`);
        await onDelete();
      }}
    >
      <p>{consequence} This cannot be undone.</p>
      <label class="field">
        <span class="label">Type <b class="mono">{name}</b> to confirm</span>
        <input
          class="mono" name="confirm" autofocus autocomplete="off" spellcheck={false} value={typed.value}
          onInput={(event) => (typed.value = event.currentTarget.value)}
        />
      </label>
    </Dialog>
  );
}

export function confirmDeletion(props: DeletionProps): void {
  openDialog(<Deletion {...props} />);
}

/** A smaller thing: asked once, without typing. */
export function confirmSmallDeletion(what: string, onDelete: () => Promise<void>): void {
  openDialog(
    <Dialog title={`Delete ${what}?`} action="Delete" isDangerous onSubmit={onDelete}>
      <p>This cannot be undone.</p>
    </Dialog>,
  );
}

/** Before something that is not saved is lost. */
export function confirmGivingUp(what: string, onGiveUp: () => void): void {
  openDialog(
    <Dialog title="Discard your changes?" action="Discard" isDangerous onSubmit={async () => onGiveUp()}>
      <p>{what}</p>
    </Dialog>,
  );
}
