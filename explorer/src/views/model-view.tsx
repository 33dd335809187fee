// The model of a database: its picture with the advisor's findings beside it, or the document itself.
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { entries, statesOf } from "../protocol/model";
import { ModelWatch } from "../state/model-watch";
import { diagramOf } from "../text/model-diagram";
import { counted } from "../protocol/plan";
import { BuildingBar } from "./rule-states";
import { openDialog } from "./dialog";
import { Findings } from "./findings";
import { Icon } from "./icon";
import { ModelDocument } from "./model-document";
import { ModelPicture } from "./model-picture";
import { RelationDialog } from "./relation-dialog";
import { VerificationBar } from "./verification-bar";

type Face = "picture" | "document";

export function ModelView({ database }: { database: string }) {
  const watch = useMemo(() => new ModelWatch(database), []);
  const face = useSignal<Face>("picture");
  const selected = useSignal<string | null>(null);
  /** What a person wants to change before it is stored; the document view takes it over. */
  const draft = useSignal<string | null>(null);
  const diagram = useComputed(() => diagramOf(watch.model.value, watch.report.value));
  useEffect(() => {
    void watch.load();
    return () => watch.close();
  }, []);

  const model = watch.model.value;
  const choose = (wanted: Face, label: string) => (
    <button type="button" role="tab" aria-selected={face.value === wanted} onClick={() => (face.value = wanted)}>{label}</button>
  );
  const editRelation = (start: { from: string; path: string; to: string }) => openDialog(<RelationDialog watch={watch} start={start} />);
  const editFirst = (text: string) => {
    draft.value = text;
    face.value = "document";
  };
  return (
    <>
      <div class="toolbar">
        <div class="segmented" role="tablist" aria-label="Show the model as">{choose("picture", "Picture")}{choose("document", "Document")}</div>
        <span class="muted model-summary">{watch.isModelRead.value && summary(model)}</span>
        <span class="grow" />
        <button type="button" disabled={model === null} title={model === null ? "Apply a finding or write a document first: relations lead between declared types" : "Or drag from a path of a type to another type"} onClick={() => editRelation({ from: "", path: "", to: "" })}>
          <Icon name="plus" />Relation
        </button>
        <button
          type="button" disabled={model === null || watch.verification.value.kind === "running"}
          title={model === null ? "There is no model to verify" : "Recompute all derived values, check all rules, and list the differences"}
          onClick={() => void watch.verify()}
        >
          <Icon name="check" />Verify
        </button>
        <button type="button" class="quiet" aria-label="Read model and advice again" title="Read model and advice again" onClick={() => void watch.load()}><Icon name="refresh" /></button>
      </div>
      {watch.error.value !== null && <p class="problem bar" role="alert">{watch.error.value}</p>}
      <VerificationBar watch={watch} rules={statesOf(model).length} />
      <BuildingBar states={statesOf(model)} />
      <div class="model-split" hidden={face.value !== "picture"}>
        <ModelPicture diagram={diagram.value} name={`${database}-model`} selected={selected} onRelation={model === null ? null : editRelation} isEmpty={watch.isModelRead.value && watch.report.value !== null} />
        <Findings watch={watch} selected={selected} names={diagram.value.names} onEditFirst={editFirst} />
      </div>
      {watch.isModelRead.value && watch.error.value === null && (
        <div class="model-split document" hidden={face.value !== "document"}><ModelDocument watch={watch} draft={draft} /></div>
      )}
    </>
  );
}

function summary(model: Parameters<typeof entries>[0]): string {
  if (model === null) return "No model is declared yet";
  const types = Object.keys(typeof model.types === "object" && model.types !== null ? model.types : {}).length;
  const parts = [counted(types, "types"), counted(entries(model, "relations").length, "relations")];
  const aggregates = entries(model, "aggregates").length;
  if (aggregates > 0) parts.push(counted(aggregates, "aggregates"));
  return parts.join(" · ");
}
