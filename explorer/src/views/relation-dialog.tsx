// A relation of the model as a form: drawn new in the picture, edited, or removed. The change is shown as
// a difference before it is stored, and stored only over the version it was made of.
import { useSignal } from "@preact/signals";
import { type JsonObject, prettyJson } from "../protocol/json";
import { documentOf } from "../protocol/model";
import { Problem } from "../protocol/problem";
import type { ModelWatch } from "../state/model-watch";
import { CHOICES, type RelationForm, declaredTypes, findRelation, formOf, formProblem, withRelation, withoutRelation } from "../text/model-relation";
import { Dialog, closeDialog } from "./dialog";
import { DiffView } from "./diff-view";
import { notifyDone, notifyProblem } from "./notice";

interface Props {
  watch: ModelWatch;
  /** Where the relation leads from and to, as far as that is known. */
  start: Pick<RelationForm, "from" | "path" | "to">;
}

const HINTS: Readonly<Record<keyof typeof CHOICES, string>> = {
  onMissing: "If the target does not exist", onDelete: "When the target is deleted", propagate: "Propagation of copies and counts",
};

export function RelationDialog({ watch, start }: Props) {
  const base = watch.model.value!;
  const edited = findRelation(base, start.from, start.path);
  const form = useSignal<RelationForm>(formOf(edited ?? { ...start, name: start.to }));
  const set = (part: Partial<RelationForm>) => (form.value = { ...form.value, ...part });
  const document = documentOf(base);
  const store = async (model: JsonObject, done: string) => {
    await watch.store(model, base).catch((problem: unknown) => {
      if (!(problem instanceof Problem) || problem.status !== 412) throw problem;
      void watch.loadModel();
      throw new Error("The model was changed meanwhile. Close this and open the relation again.");
    });
    notifyDone(done);
  };
  const submit = async () => {
    const problem = formProblem(form.value);
    if (problem !== null) throw new Error(problem);
    await store(withRelation(document, edited, form.value), `Saved the relation ${form.value.name}.`);
  };
  const erase = () => {
    closeDialog();
    store(withoutRelation(document, edited!), `Removed the relation ${String(edited!.name)}. The data stays as it is.`).catch(notifyProblem);
  };
  const types = declaredTypes(base);
  const choice = (label: string, value: string, options: readonly string[], onChange: (value: string) => void) => (
    <label class="field"><span class="label">{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {!options.includes(value) && <option value={value}>{value}</option>}
        {options.map((option) => <option key={option} value={option}>{option}</option>)}
      </select>
    </label>
  );
  const text = (label: string, value: string, onChange: (value: string) => void, hasFocus = false) => (
    <label class="field"><span class="label">{label}</span>
      <input class="mono" autofocus={hasFocus} autocomplete="off" spellcheck={false} value={value} onInput={(event) => onChange(event.currentTarget.value)} />
    </label>
  );
  return (
    <Dialog
      title={edited === null ? "New relation" : `Relation ${String(edited.name)}`} action={edited === null ? "Create" : "Save"} isWide onSubmit={submit}
      footer={edited !== null && <><button type="button" class="danger" onClick={erase}>Remove</button><span class="grow" /></>}
    >
      <div class="relation-form">
        {text("Name", form.value.name, (name) => set({ name }), true)}
        {choice("From", form.value.from, types, (from) => set({ from }))}
        {text("Path", form.value.path, (path) => set({ path }))}
        {choice("To", form.value.to, types, (to) => set({ to }))}
        {(Object.keys(CHOICES) as (keyof typeof CHOICES)[]).map((setting) => choice(HINTS[setting], form.value[setting], CHOICES[setting], (value) => set({ [setting]: value })))}
      </div>
      {formProblem(form.value) === null && <DiffView before={prettyJson(document)} after={prettyJson(withRelation(document, edited, form.value))} isShort />}
    </Dialog>
  );
}
