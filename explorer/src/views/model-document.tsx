// The model as JSON: edited, stored only over the version that was read, and what the server refuses
// marked at its place.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo } from "preact/hooks";
import { CodeEditor, type Fault } from "../editor/code-editor";
import { type JsonObject, prettyJson } from "../protocol/json";
import { deleteModel, documentOf, modelFault, statesOf } from "../protocol/model";
import { Problem, describe } from "../protocol/problem";
import { client } from "../state/account";
import { EditBuffer } from "../state/edit-buffer";
import type { ModelWatch } from "../state/model-watch";
import { addressOf } from "../state/tabs";
import { setUnsaved } from "../state/unsaved";
import { lineAndColumn } from "../text/json-fault";
import { placeOf } from "../text/json-place";
import { ConflictDialog } from "./conflict-dialog";
import { confirmGivingUp, confirmSmallDeletion, openDialog } from "./dialog";
import { Icon } from "./icon";
import { readItemText } from "./item-editor";
import { notifyDone } from "./notice";
import { RuleStates } from "./rule-states";

const EMPTY = '{\n  "version": 1,\n  "types": {},\n  "relations": []\n}';
const NO_FAULTS: readonly Fault[] = [];

interface Props {
  watch: ModelWatch;
  /** A text that somebody else has prepared for this editor; taken once. */
  draft: Signal<string | null>;
}

const textOf = (model: JsonObject | null) => (model === null ? EMPTY : prettyJson(documentOf(model)));

export function ModelDocument({ watch, draft }: Props) {
  const buffer = useMemo(() => new EditBuffer<JsonObject>(watch.model.value, textOf), []);
  const error = useSignal<string | null>(null);
  const faults = useSignal(NO_FAULTS);
  const isBusy = useSignal(false);
  const isModified = buffer.isModified.value;
  const address = addressOf({ kind: "model", database: watch.database });
  useLayoutEffect(() => {
    setUnsaved(address, isModified);
    return () => setUnsaved(address, false);
  }, [isModified]);

  const forgetFaults = () => {
    error.value = null;
    faults.value = NO_FAULTS;
  };
  const discard = (model: JsonObject | null) => {
    buffer.reset(model);
    forgetFaults();
  };
  useEffect(() => {
    if (watch.model.value !== buffer.base.peek() && buffer.refresh(watch.model.value)) forgetFaults();
  }, [watch.model.value]);
  useEffect(() => {
    const prepared = draft.value;
    if (prepared === null) return;
    draft.value = null;
    const accept = () => {
      discard(watch.model.value);
      buffer.text.value = prepared;
    };
    if (isModified) confirmGivingUp("The document has changes that are not saved.", accept);
    else accept();
  }, [draft.value]);

  const store = async (mine: JsonObject, over: JsonObject | null, sent: string) => {
    buffer.saved(await watch.store(mine, over), sent);
    forgetFaults();
    notifyDone("Saved the model.");
  };
  const conflict = async (mine: JsonObject, sent: string) => {
    const theirs = await watch.loadModel();
    openDialog(
      <ConflictDialog
        id="The model" mine={prettyJson(mine)} theirs={theirs === null ? "" : textOf(theirs)}
        onTakeTheirs={() => discard(theirs)}
        onEditOn={() => buffer.rebase(theirs)}
        onOverwrite={() => store(mine, theirs, sent)}
      />,
    );
  };
  const refuse = (problem: unknown) => {
    const fault = modelFault(problem);
    const text = buffer.text.value;
    const place = fault === null ? null : placeOf(text, fault.path);
    if (fault === null || place === null) {
      error.value = describe(problem);
      return;
    }
    const { line } = lineAndColumn(text, place.from);
    error.value = `Line ${line}, ${fault.path || "the whole model"}: ${fault.reason}`;
    faults.value = [{ ...place, message: fault.reason }];
  };
  const save = async () => {
    // A second save would send the etag that the first one is about to replace.
    if (isBusy.value) return;
    isBusy.value = true;
    forgetFaults();
    try {
      const sent = buffer.text.value;
      const mine = documentOf(readItemText(sent));
      await store(mine, buffer.base.value, sent).catch((problem: unknown) => {
        if (problem instanceof Problem && problem.status === 412) return conflict(mine, sent);
        throw problem;
      });
    } catch (problem) {
      refuse(problem);
    } finally {
      isBusy.value = false;
    }
  };
  const erase = () => {
    const known = buffer.base.value!;
    confirmSmallDeletion("the model", async () => {
      await deleteModel(client(), watch.database, known).catch((problem: unknown) => {
        const isOld = problem instanceof Problem && problem.status === 412;
        throw isOld ? new Error("Another client has changed the model since it was read. Read it again first.") : problem;
      });
      await watch.load();
      discard(watch.model.value);
      notifyDone("Deleted the model. The data stays as it is.");
    });
  };
  const edit = (now: string) => {
    buffer.text.value = now;
    if (faults.value.length > 0) faults.value = NO_FAULTS;
  };

  return (
    <>
      <section class="model-editor" aria-label="Model document">
        <div class="toolbar">
          <h2>{buffer.base.value === null ? "New model" : "Model"}{isModified && <span class="dot" title="Not saved" />}</h2>
          <span class="grow" />
          {buffer.base.value !== null && <button type="button" class="quiet" aria-label="Delete the model" title="Delete" onClick={erase}><Icon name="trash" /></button>}
          {isModified && <button type="button" onClick={() => discard(buffer.base.value)}>Revert</button>}
          <button type="button" class="primary" disabled={isBusy.value || !isModified} title="Ctrl S" onClick={() => void save()}>{isBusy.value ? "Saving…" : "Save model"}</button>
        </div>
        {error.value !== null && <p class="problem bar" role="alert">{error.value}</p>}
        <CodeEditor label="Model" language="json" text={buffer.text.value} faults={faults.value} onChange={edit} keys={{ "Mod-s": () => void save() }} isFilling />
      </section>
      <RuleStates states={statesOf(watch.model.value)} />
    </>
  );
}
