// The model as JSON: edited, stored only over the version that was read, and what the server refuses
// marked at its place.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { CodeEditor, type Fault } from "../editor/code-editor";
import { type JsonObject, prettyJson } from "../protocol/json";
import { deleteModel, documentOf, modelFault, statesOf } from "../protocol/model";
import { Problem, describe } from "../protocol/problem";
import { client } from "../state/account";
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
  const base = useSignal<JsonObject | null>(watch.model.value);
  const text = useSignal(textOf(watch.model.value));
  const error = useSignal<string | null>(null);
  const faults = useSignal(NO_FAULTS);
  const isBusy = useSignal(false);
  const original = textOf(base.value);
  const isChanged = text.value !== original;
  const address = addressOf({ kind: "model", database: watch.database });
  useEffect(() => {
    setUnsaved(address, isChanged);
    return () => setUnsaved(address, false);
  }, [isChanged]);

  const take = (model: JsonObject | null) => {
    base.value = model;
    text.value = textOf(model);
    error.value = null;
    faults.value = NO_FAULTS;
  };
  // A model that was read anew replaces a text that nobody has touched.
  useEffect(() => {
    if (!isChanged && watch.model.value !== base.value) take(watch.model.value);
  }, [watch.model.value]);
  useEffect(() => {
    const prepared = draft.value;
    if (prepared === null) return;
    draft.value = null;
    const accept = () => {
      take(watch.model.value);
      text.value = prepared;
    };
    if (isChanged) confirmGivingUp("The document holds changes that are not saved.", accept);
    else accept();
  }, [draft.value]);

  const store = async (mine: JsonObject, over: JsonObject | null) => {
    await watch.store(mine, over);
    take(watch.model.value);
    notifyDone("Saved the model.");
  };
  const conflict = async (mine: JsonObject) => {
    const theirs = await watch.loadModel();
    openDialog(
      <ConflictDialog
        id="The model" mine={prettyJson(mine)} theirs={theirs === null ? "" : textOf(theirs)}
        onTakeTheirs={() => take(theirs)}
        onEditOn={() => (base.value = theirs)}
        onOverwrite={() => store(mine, theirs)}
      />,
    );
  };
  const refuse = (problem: unknown) => {
    const fault = modelFault(problem);
    const place = fault === null ? null : placeOf(text.value, fault.path);
    if (fault === null || place === null) {
      error.value = describe(problem);
      return;
    }
    const { line } = lineAndColumn(text.value, place.from);
    error.value = `Line ${line}, ${fault.path || "the whole model"}: ${fault.reason}`;
    faults.value = [{ ...place, message: fault.reason }];
  };
  const save = async () => {
    isBusy.value = true;
    error.value = null;
    faults.value = NO_FAULTS;
    try {
      const mine = documentOf(readItemText(text.value));
      await store(mine, base.value).catch((problem: unknown) => {
        if (problem instanceof Problem && problem.status === 412) return conflict(mine);
        throw problem;
      });
    } catch (problem) {
      refuse(problem);
    } finally {
      isBusy.value = false;
    }
  };
  const erase = () => {
    const known = base.value!;
    confirmSmallDeletion("the model", async () => {
      await deleteModel(client(), watch.database, known).catch((problem: unknown) => {
        const isOld = problem instanceof Problem && problem.status === 412;
        throw isOld ? new Error("Somebody else has changed the model since you read it. Look at it again first.") : problem;
      });
      await watch.load();
      take(watch.model.value);
      notifyDone("Deleted the model. The data stays as it is.");
    });
  };
  const edit = (now: string) => {
    text.value = now;
    if (faults.value.length > 0) faults.value = NO_FAULTS;
  };

  return (
    <>
      <section class="model-editor" aria-label="Model document">
        <div class="toolbar">
          <h2>{base.value === null ? "New model" : "Model"}{isChanged && <span class="dot" title="Not saved" />}</h2>
          <span class="grow" />
          {base.value !== null && <button type="button" class="quiet" aria-label="Delete the model" title="Delete" onClick={erase}><Icon name="trash" /></button>}
          {isChanged && <button type="button" onClick={() => take(base.value)}>Revert</button>}
          <button type="button" class="primary" disabled={isBusy.value || !isChanged} title="Ctrl S" onClick={() => void save()}>{isBusy.value ? "Saving…" : "Save model"}</button>
        </div>
        {error.value !== null && <p class="problem bar" role="alert">{error.value}</p>}
        <CodeEditor label="Model" language="json" text={text.value} faults={faults.value} onChange={edit} keys={{ "Mod-s": () => void save() }} isFilling />
      </section>
      <RuleStates states={statesOf(watch.model.value)} />
    </>
  );
}
