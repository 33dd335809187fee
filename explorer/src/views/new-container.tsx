// A new container with the settings that can only be made now, and those that people make first.
import { type Signal, useSignal } from "@preact/signals";
import { CodeEditor } from "../editor/code-editor";
import { type JsonObject, parseJson, prettyJson } from "../protocol/json";
import { type Container, type Throughput, create, databasePath, throughputHeaders } from "../protocol/resources";
import { client } from "../state/account";
import { reloadContainers } from "../state/catalog";
import { open } from "../state/tabs";
import { Dialog } from "./dialog";
import { Icon } from "./icon";
import { ThroughputField } from "./throughput-field";
import { type Ttl, TtlField } from "./ttl-field";
import { reveal } from "./tree";

const LEVELS_MAX = 3;

const DEFAULT_INDEXING = prettyJson({
  indexingMode: "consistent",
  automatic: true,
  includedPaths: [{ path: "/*" }],
  excludedPaths: [{ path: '/"_etag"/?' }],
});

/** The definition that is sent. */
export function containerDefinition(
  id: string, paths: readonly string[], uniqueKeys: readonly string[], ttl: Ttl, indexing: string | null,
): JsonObject {
  const used = paths.map((path) => path.trim()).filter((path) => path !== "");
  if (used.length === 0) throw new Error("A container needs a partition key, such as /customer.");
  const wrong = used.find((path) => !path.startsWith("/"));
  if (wrong !== undefined) throw new Error(`A partition key is a path and begins with a slash: /${wrong}`);
  const definition: JsonObject = {
    id,
    partitionKey: { paths: used, kind: used.length > 1 ? "MultiHash" : "Hash", version: 2 },
  };
  const keys = uniqueKeys.map((key) => key.split(",").map((path) => path.trim()).filter((path) => path !== ""));
  const filled = keys.filter((key) => key.length > 0);
  if (filled.length > 0) definition.uniqueKeyPolicy = { uniqueKeys: filled.map((key) => ({ paths: key })) };
  if (ttl !== null) definition.defaultTtl = ttl;
  if (indexing !== null) definition.indexingPolicy = parseJson(indexing);
  return definition;
}

export function NewContainer({ database }: { database: string }) {
  const id = useSignal("");
  const paths = useSignal<readonly string[]>([""]);
  const uniqueKeys = useSignal<readonly string[]>([]);
  const ttl = useSignal<Ttl>(null);
  const throughput = useSignal<Throughput>({ kind: "none" });
  const indexing = useSignal<string | null>(null);

  const submit = async () => {
    const body = containerDefinition(id.value, paths.value, uniqueKeys.value, ttl.value, indexing.value);
    await create<Container>(client(), [...databasePath(database), "colls"], body, throughputHeaders(throughput.value));
    await reloadContainers(database);
    reveal(`d/${database}`, `c/${database}/${id.value}`);
    open({ kind: "items", database, container: id.value });
  };

  return (
    <Dialog title={`New container in ${database}`} action="Create" onSubmit={submit}>
      <label class="field">
        <span class="label">Name</span>
        <input name="id" autofocus autocomplete="off" spellcheck={false} value={id.value} onInput={(event) => (id.value = event.currentTarget.value)} />
      </label>
      <TextList
        legend="Partition key" value={paths} placeholder={["/tenant", "/user", "/session"]}
        add={paths.value.length < LEVELS_MAX ? "Add a level" : null} isFirstFixed
        note={paths.value.length > 1 ? "Hierarchical: each level divides the one before." : "Items with the same value here are kept together."}
      />
      <TextList
        legend="Unique keys" value={uniqueKeys} placeholder={["/email", "/street, /number"]} add="Add a unique key"
        note={uniqueKeys.value.length > 0 ? "Within one partition key; several paths with commas count together." : null}
      />
      <TtlField value={ttl} />
      <ThroughputField value={throughput} none="Default" />
      <details class="field" onToggle={(event) => {
        if (event.currentTarget.open) indexing.value ??= DEFAULT_INDEXING;
      }}>
        <summary class="label">Indexing policy</summary>
        {indexing.value !== null && (
          <CodeEditor label="Indexing policy" language="json" text={indexing.value} onChange={(text) => (indexing.value = text)} />
        )}
      </details>
    </Dialog>
  );
}

interface ListProps {
  legend: string;
  value: Signal<readonly string[]>;
  placeholder: readonly string[];
  add: string | null;
  note: string | null;
  isFirstFixed?: boolean;
}

/** Lines of text that can be added and taken away. */
function TextList({ legend, value, placeholder, add, note, isFirstFixed }: ListProps) {
  const set = (index: number, text: string) => (value.value = value.value.map((old, at) => (at === index ? text : old)));
  return (
    <fieldset class="field">
      <legend class="label">{legend}</legend>
      {value.value.map((text, index) => (
        <div class="inline" key={index}>
          <input
            class="mono grow" spellcheck={false} autocomplete="off" aria-label={`${legend} ${index + 1}`}
            placeholder={placeholder[index % placeholder.length]} value={text}
            onInput={(event) => set(index, event.currentTarget.value)}
          />
          {!(isFirstFixed && index === 0) && (
            <button type="button" class="quiet" aria-label={`Remove ${legend} ${index + 1}`} onClick={() => (value.value = value.value.filter((_, at) => at !== index))}>
              <Icon name="close" size={12} />
            </button>
          )}
        </div>
      ))}
      {add !== null && <button type="button" class="link" onClick={() => (value.value = [...value.value, ""])}>{add}</button>}
      {note !== null && <p class="fine muted">{note}</p>}
    </fieldset>
  );
}
