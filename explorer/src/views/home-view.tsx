// The home page: every container with its size and what is going on in it, and on an empty server the
// first steps.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { connectionString, endpoint } from "../state/account";
import { containers, databases, reloadAll } from "../state/catalog";
import { type DemoQuery, demoPairs, openQuery } from "../state/demo-queries";
import { type Findings, Overview, type Rate, SIZES_AT_FIRST, type Size, linkOf, sizeText } from "../state/overview";
import { activeAddress, open } from "../state/tabs";
import { isPageVisible } from "../state/visibility";
import { counted } from "../protocol/plan";
import type { Container } from "../protocol/resources";
import { shortNumber } from "../text/scale";
import { LoadDemo } from "./load-demo";
import { copyText } from "./copy-text";
import { openDialog } from "./dialog";
import { Icon } from "./icon";
import { Mark } from "./mark";
import { NewContainer } from "./new-container";
import { NewDatabase } from "./new-database";

export function HomeView() {
  const overview = useMemo(() => new Overview(), []);
  useSignalEffect(() => {
    if (isPageVisible.value && activeAddress.value === null) overview.start();
    else overview.stop();
  });
  useEffect(() => () => overview.stop(), []);
  const { value: all, error } = databases().value;
  if (error !== null) return <div class="page home"><p class="problem" role="alert">{error}</p></div>;
  if (all === null) return <div class="page home" aria-busy="true" />;
  return all.length === 0 ? <FirstSteps /> : <Databases names={all.map(({ id }) => id)} overview={overview} />;
}

function Databases({ names, overview }: { names: readonly string[]; overview: Overview }) {
  const inside = names.map((database) => ({ database, list: containers(database).value.value ?? [] }));
  const flat = inside.flatMap(({ database, list }) => list.map(({ id }) => ({ database, container: id })));
  const isMore = flat.length > SIZES_AT_FIRST;
  const isAll = useSignal(false);
  const wanted = isAll.value ? flat : flat.slice(0, SIZES_AT_FIRST);
  useEffect(() => void overview.readSizes(wanted), [wanted.map(({ database, container }) => linkOf(database, container)).join()]);
  const again = () => {
    overview.forgetSizes();
    void reloadAll();
    void overview.readSizes(wanted);
  };
  return (
    <div class="page home">
      <header class="home-head">
        <div>
          <h1>Databases</h1>
          <p class="muted"><Summary all={flat} databases={names.length} overview={overview} /></p>
        </div>
        <span class="grow" />
        <button type="button" class="quiet" aria-label="Read everything again" title="Read everything again" onClick={again}><Icon name="refresh" /></button>
        <button type="button" onClick={() => openDialog(<LoadDemo />)}>Load the demo</button>
        <button type="button" class="primary" onClick={() => openDialog(<NewDatabase />)}><Icon name="plus" />New database</button>
      </header>
      <div class="card home-card">
        <table class="plain">
          <thead>
            <tr>
              <th>Container</th><th class="not-narrow">Partition key</th><th class="number">Items</th><th class="number">Size</th>
              <th class="number not-narrow">Requests/s</th><th class="number">RU/s</th><th><span class="hidden-text">Open</span></th>
            </tr>
          </thead>
          {inside.map(({ database, list }) => <DatabaseRows key={database} database={database} list={list} overview={overview} />)}
        </table>
      </div>
      {isMore && !isAll.value && <p><button type="button" onClick={() => (isAll.value = true)}>Read the sizes of all {flat.length.toLocaleString("en")} containers</button></p>}
      <BeforeAndAfter names={names} />
    </div>
  );
}

/** Queries of the demo, where it is loaded. */
function BeforeAndAfter({ names }: { names: readonly string[] }) {
  const pairs = demoPairs(names);
  if (pairs.length === 0) return null;
  const run = (label: string, title: string, query: DemoQuery) => (
    <button type="button" aria-label={`${label}: ${title}`} title={query.text} onClick={() => openQuery(query)}><Icon name="run" size={11} />{label}</button>
  );
  return (
    <section class="card home-card demo-pairs">
      <h2>The demo, before and after a model</h2>
      {pairs.map(({ title, about, before, after }) => (
        <div class="demo-pair" key={title}>
          <div><b>{title}</b><p class="muted fine">{about}</p></div>
          {run("Before", title, before)}
          {run("After", title, after)}
        </div>
      ))}
    </section>
  );
}

function Summary({ all, databases: count, overview }: { all: readonly { database: string; container: string }[]; databases: number; overview: Overview }) {
  const sizes = all.map(({ database, container }) => overview.sizes.value[linkOf(database, container)]).filter((size) => size !== undefined);
  const sum = (pick: (size: Size) => number) => sizes.reduce((total, size) => total + pick(size), 0);
  const rates = overview.rates.value === null ? [] : [...overview.rates.value.values()];
  const rate = (pick: (rate: Rate) => number) => shortNumber(rates.reduce((total, one) => total + pick(one), 0));
  const parts = [counted(count, "databases"), counted(all.length, "containers")];
  if (sizes.length === all.length && sizes.length > 0) parts.push(counted(sum(({ items }) => items), "items"), sizeText(sum(({ kilobytes }) => kilobytes)));
  if (overview.rates.value !== null) parts.push(`${rate(({ requests }) => requests)} requests/s`, `${rate(({ charge }) => charge)} RU/s`);
  return <>{parts.join(" · ")}</>;
}

function DatabaseRows({ database, list, overview }: { database: string; list: readonly Container[]; overview: Overview }) {
  return (
    <tbody aria-label={database}>
      <tr class="home-database">
        <th scope="rowgroup" colspan={COLUMNS}>
          <div class="inline">
            <Icon name="database" />
            <h2><button type="button" class="link mono" onClick={() => open({ kind: "database", database })}>{database}</button></h2>
            <span class="grow" />
            <FindingsOf database={database} overview={overview} />
            <button type="button" class="quiet" aria-label={`Model of ${database}`} onClick={() => open({ kind: "model", database })}><Icon name="model" /><span class="not-narrow">Model</span></button>
            <button type="button" class="quiet" aria-label={`New container in ${database}`} title="New container" onClick={() => openDialog(<NewContainer database={database} />)}><Icon name="plus" /></button>
          </div>
        </th>
      </tr>
      {list.length === 0 && <tr><td class="muted" colspan={COLUMNS}>No containers yet.</td></tr>}
      {list.map((container) => <ContainerRow key={container.id} database={database} container={container} overview={overview} />)}
    </tbody>
  );
}

const COLUMNS = 7;

function ContainerRow({ database, container: { id, partitionKey }, overview }: { database: string; container: Container; overview: Overview }) {
  const link = linkOf(database, id);
  const size = overview.sizes.value[link];
  const rate = overview.rates.value?.get(link);
  const rateText = (value: number | undefined) => (overview.rates.value === null ? "…" : shortNumber(value ?? 0));
  return (
    <tr>
      <td><button type="button" class="link mono" onClick={() => open({ kind: "items", database, container: id })}>{id}</button></td>
      <td class="mono not-narrow">{partitionKey.paths.join("  ›  ")}</td>
      <td class="number">{size === undefined ? "…" : size.items.toLocaleString("en")}</td>
      <td class="number">{size === undefined ? "…" : size.kilobytes === 0 && size.items > 0 ? "< 1 KB" : sizeText(size.kilobytes)}</td>
      <td class="number not-narrow">{rateText(rate?.requests)}</td>
      <td class="number">{rateText(rate?.charge)}</td>
      <td class="end"><button type="button" class="quiet" aria-label={`Query ${id}`} title="Query" onClick={() => open({ kind: "query", database, container: id })}><Icon name="query" /></button></td>
    </tr>
  );
}

function FindingsOf({ database, overview }: { database: string; overview: Overview }) {
  const found: Findings | undefined = overview.findings.value[database];
  if (found === undefined) {
    return <button type="button" class="quiet" title="The advisor reads the data and the requests of this database" onClick={() => void overview.advise(database)}>Run the advisor</button>;
  }
  if (found.kind === "reading") return <span class="muted" role="status">Reading the data…</span>;
  if (found.kind === "failed") return <span class="bad" role="alert">{found.message}</span>;
  if (found.count === 0) return <span class="good-text" role="status">No findings</span>;
  return <button type="button" class={`chip ${found.worst ?? ""}`} onClick={() => open({ kind: "model", database })}>{counted(found.count, "findings")}</button>;
}

function FirstSteps() {
  return (
    <div class="page home first-steps">
      <Mark size={72} />
      <h1>This server is empty</h1>
      <ol>
        <li>
          <h2>Load the demo</h2>
          <p class="muted">Five small databases, each with a model that the server keeps true: references, copies, counts and long arrays.</p>
          <button type="button" class="primary" onClick={() => openDialog(<LoadDemo />)}>Load the demo</button>
        </li>
        <li>
          <h2>Or create a database of your own</h2>
          <p class="muted">Then a container with its partition key, and items; JSON and CSV files can be imported.</p>
          <button type="button" onClick={() => openDialog(<NewDatabase />)}><Icon name="plus" />New database</button>
        </li>
        <li>
          <h2>Connect an application</h2>
          <p class="muted">Any SDK of Azure Cosmos DB for NoSQL, unmodified, with this endpoint and key.</p>
          <p><code class="mono">{endpoint()}</code></p>
          <button type="button" onClick={() => void copyText(connectionString(), "Copied the connection string.")}><Icon name="copy" />Copy the connection string</button>
        </li>
      </ol>
    </div>
  );
}
