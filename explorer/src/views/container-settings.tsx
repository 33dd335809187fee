// Settings of a container: those that may change can be edited, those that never change are shown.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { CodeEditor } from "../editor/code-editor";
import { type JsonObject, isObject, parseJson, prettyJson } from "../protocol/json";
import { describe } from "../protocol/problem";
import {
  type Container, type Throughput, containerPath, listAll, offerThroughput, readOffer, replace, setThroughput,
} from "../protocol/resources";
import { readUsage } from "../protocol/usage";
import { client } from "../state/account";
import { reloadContainers } from "../state/catalog";
import { notifyDone } from "./notice";
import { ThroughputField } from "./throughput-field";
import { type Ttl, TtlField } from "./ttl-field";
import { deleteContainer } from "./tree";

interface Props {
  database: string;
  container: string;
}

interface Facts {
  container: Container;
  usage: Record<string, number>;
  partitions: number;
}

export function ContainerSettings({ database, container: name }: Props) {
  const path = containerPath(database, name);
  const facts = useSignal<Facts | null>(null);
  const error = useSignal<string | null>(null);
  const ttl = useSignal<Ttl>(null);
  const indexing = useSignal("");
  const computed = useSignal("");
  /** Minutes for which the change feed keeps every version; 0 for none. */
  const kept = useSignal(0);
  const isBusy = useSignal(false);

  const load = async () => {
    try {
      const headers = { "x-ms-documentdb-populatequotainfo": "true" };
      const answer = await client().send({ method: "GET", segments: path, headers });
      const container = parseJson(answer.text) as Container;
      const ranges = await listAll(client(), [...path, "pkranges"]);
      facts.value = { container, usage: readUsage(answer.headers.get("x-ms-resource-usage")), partitions: ranges.length };
      ttl.value = typeof container.defaultTtl === "number" ? container.defaultTtl : null;
      indexing.value = prettyJson(container.indexingPolicy);
      computed.value = prettyJson(container.computedProperties ?? []);
      kept.value = isObject(container.changeFeedPolicy) ? Number(container.changeFeedPolicy.retentionDuration ?? 0) : 0;
      error.value = null;
    } catch (problem) {
      error.value = describe(problem);
    }
  };
  useEffect(() => void load(), []);

  const save = async () => {
    isBusy.value = true;
    error.value = null;
    try {
      const { container } = facts.value!;
      const { defaultTtl: _, computedProperties: __, changeFeedPolicy: ___, ...rest } = container as JsonObject;
      const body: JsonObject = { ...rest, indexingPolicy: parseJson(indexing.value) };
      if (ttl.value !== null) body.defaultTtl = ttl.value;
      if (kept.value > 0) body.changeFeedPolicy = { retentionDuration: kept.value };
      const properties = parseJson(computed.value);
      if (Array.isArray(properties) && properties.length > 0) body.computedProperties = properties;
      await replace<Container>(client(), path, body, container._etag);
      notifyDone("Saved the settings.");
      await Promise.all([load(), reloadContainers(database)]);
    } catch (problem) {
      error.value = describe(problem);
    } finally {
      isBusy.value = false;
    }
  };

  if (facts.value === null) return <div class="page">{error.value !== null && <p class="problem" role="alert">{error.value}</p>}</div>;
  const { container, usage, partitions } = facts.value;
  const unique = (container.uniqueKeyPolicy as JsonObject | undefined)?.uniqueKeys as { paths: string[] }[] | undefined;
  return (
    <div class="page">
      <h1 class="mono">{name}</h1>
      <dl class="facts">
        <dt>Partition key</dt><dd class="mono">{container.partitionKey.paths.join("  ›  ")}</dd>
        {unique && unique.length > 0 && <><dt>Unique keys</dt><dd class="mono">{unique.map(({ paths }) => paths.join(", ")).join("  ·  ")}</dd></>}
        <dt>Physical partitions</dt><dd>{partitions}</dd>
        {usage.documentsCount !== undefined && <><dt>Items</dt><dd>{usage.documentsCount.toLocaleString()}</dd></>}
        {usage.collectionSize !== undefined && <><dt>Size</dt><dd>{usage.collectionSize.toLocaleString()} KB</dd></>}
        <dt>_rid</dt><dd class="mono">{container._rid}</dd>
      </dl>
      {/* Nothing can be typed while it is saved: what the server stored replaces the form. */}
      <fieldset class="card" disabled={isBusy.value} aria-busy={isBusy.value}>
        <h2>Container</h2>
        <TtlField value={ttl} />
        <label class="field">
          <span class="label">Keep all versions and deletes for the change feed (minutes; 0: off)</span>
          <input class="short" type="number" min="0" step="1" value={kept.value} onInput={(event) => (kept.value = event.currentTarget.valueAsNumber || 0)} />
        </label>
        <div class="field">
          <span class="label">Indexing policy</span>
          <CodeEditor label="Indexing policy" language="json" text={indexing.value} onChange={(text) => (indexing.value = text)} isReadOnly={isBusy.value} />
        </div>
        <div class="field">
          <span class="label">Computed properties</span>
          <CodeEditor label="Computed properties" language="json" text={computed.value} onChange={(text) => (computed.value = text)} isReadOnly={isBusy.value} />
        </div>
        {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
        <button type="button" class="primary" onClick={() => void save()}>Save settings</button>
      </fieldset>
      <ThroughputCard self={container._self} none="It shares the throughput of its database." />
      <section class="card">
        <h2>Delete</h2>
        <p class="muted">The container with all its items and scripts.</p>
        <button type="button" class="danger" onClick={() => deleteContainer(database, name)}>Delete container…</button>
      </section>
    </div>
  );
}

type Offer = NonNullable<Awaited<ReturnType<typeof readOffer>>>;

/** The throughput of a database or container, where it has some of its own. */
export function ThroughputCard({ self, none }: { self: string; none: string }) {
  const offer = useSignal<Offer | null | undefined>(undefined);
  const wanted = useSignal<Throughput>({ kind: "none" });
  const error = useSignal<string | null>(null);
  const load = async () => {
    try {
      offer.value = await readOffer(client(), self);
      wanted.value = offerThroughput(offer.value);
    } catch (problem) {
      error.value = describe(problem);
    }
  };
  useEffect(() => void load(), [self]);
  const save = async () => {
    error.value = null;
    try {
      await setThroughput(client(), offer.value!, wanted.value);
      await load();
      notifyDone("Saved the throughput.");
    } catch (problem) {
      error.value = describe(problem);
    }
  };
  return (
    <section class="card">
      <h2>Throughput</h2>
      {offer.value === null && <p class="muted">{none}</p>}
      {offer.value && <ThroughputField value={wanted} none={null} />}
      {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
      {offer.value && <button type="button" class="primary" onClick={() => void save()}>Save throughput</button>}
    </section>
  );
}
