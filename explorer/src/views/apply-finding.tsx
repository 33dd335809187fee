// Applies what a finding proposes: first the change as a difference, then, if the person wants it, the
// write, which succeeds only over the version that the difference was made of.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type JsonObject, prettyJson, withoutSystemProperties } from "../protocol/json";
import { type Finding, documentOf } from "../protocol/model";
import { Problem, describe } from "../protocol/problem";
import { type Container, containerPath, read, replace } from "../protocol/resources";
import { client } from "../state/account";
import { reloadContainers } from "../state/catalog";
import type { ModelWatch } from "../state/model-watch";
import { changeOf, patched, withExcluded } from "../text/model-patch";
import { closeDialog, Dialog } from "./dialog";
import { DiffView } from "./diff-view";
import { notifyDone } from "./notice";

interface Props {
  finding: Finding;
  title: string;
  watch: ModelWatch;
  onEditFirst: (text: string) => void;
}

/** A change that is ready to be made. */
interface Prepared {
  /** What is changed, in a sentence. */
  about: string;
  before: string;
  after: string;
  write: () => Promise<void>;
}

export function ApplyFinding({ finding, title, watch, onEditFirst }: Props) {
  const prepared = useSignal<Prepared | null>(null);
  const error = useSignal<string | null>(null);
  const change = changeOf(finding);
  const prepare = async () => {
    prepared.value = change.kind === "indexing"
      ? await prepareIndexing(watch, change.container, change.policy)
      : await prepareModel(watch, finding);
  };
  const tryPrepare = () => prepare().catch((problem: unknown) => {
    error.value = describe(problem);
  });
  useEffect(() => void tryPrepare(), []);

  const submit = async () => {
    error.value = null;
    try {
      await prepared.value?.write();
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.status !== 412) throw problem;
      await prepare();
      throw new Error("It was changed meanwhile. The difference shown is from the version stored now; apply it if it is still right.");
    }
  };
  const edit = () => {
    onEditFirst(prepared.value!.after);
    closeDialog();
  };
  const ready = prepared.value;
  const isSame = ready !== null && ready.before === ready.after;
  return (
    <Dialog
      title={`Apply: ${title.toLowerCase()} of ${finding.type}`} isWide
      {...(ready === null || isSame ? {} : { action: "Apply", onSubmit: submit })}
      footer={change.kind === "model" && ready !== null && !isSame && <><button type="button" onClick={edit}>Edit it first</button><span class="grow" /></>}
    >
      {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
      {ready !== null && <p>{isSame ? "Applied already: nothing would change." : ready.about}</p>}
      {ready !== null && !isSame && <DiffView before={ready.before} after={ready.after} isShort />}
      {ready === null && error.value === null && <p class="muted">Reading the current version…</p>}
      {change.kind === "model" && !isSame && <p class="muted fine">Existing data is checked and completed in the background. Items that violate a rule are listed with it and left unchanged.</p>}
    </Dialog>
  );
}

async function prepareModel(watch: ModelWatch, finding: Finding): Promise<Prepared> {
  const current = await watch.loadModel();
  if (watch.error.value !== null) throw new Error(watch.error.value);
  const before = current === null ? null : documentOf(current);
  const after = patched(before, finding.patch);
  return {
    about: current === null ? "The database has no model yet. It gets this one:" : "This changes the model:",
    before: before === null ? "" : prettyJson(before),
    after: prettyJson(after),
    write: async () => {
      await watch.store(after, current);
      notifyDone("Applied to the model.");
    },
  };
}

async function prepareIndexing(watch: ModelWatch, name: string, proposed: JsonObject): Promise<Prepared> {
  const path = containerPath(watch.database, name);
  const container = await read<Container>(client(), path);
  const body: JsonObject = { ...container, indexingPolicy: withExcluded(container.indexingPolicy, proposed) };
  return {
    about: `This changes the container ${name}:`,
    before: prettyJson(withoutSystemProperties(container)),
    after: prettyJson(withoutSystemProperties(body)),
    write: async () => {
      await replace<Container>(client(), path, body, container._etag);
      notifyDone(`Applied. The index of ${name} follows.`);
      await Promise.all([reloadContainers(watch.database), watch.loadAdvice()]);
    },
  };
}
