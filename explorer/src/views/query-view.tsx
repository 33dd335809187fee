// A query: the text, what it needs, and its rows as a table, as JSON, as a chart, with its plan and
// what it cost.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { CodeEditor } from "../editor/code-editor";
import { queryLanguage } from "../editor/query-language";
import { type Json, compactJson, isObject, prettyJson } from "../protocol/json";
import { scripts } from "../state/catalog";
import { demoQueriesOf, wantedQuery } from "../state/demo-queries";
import { pageSize, queryHistory, savedQueries } from "../state/preferences";
import { type Outcome, QueryRun } from "../state/query-run";
import { seenPaths } from "../state/seen-paths";
import { columnsOf, csv, shownColumns } from "../text/csv";
import { download } from "../text/download";
import { withClauses } from "../text/plan-clauses";
import { type Sort, nextSort, sortRows } from "../text/sort-rows";
import { Chart } from "./chart";
import { Dialog, openDialog } from "./dialog";
import { Grid } from "./grid";
import { Icon } from "./icon";
import { Menu } from "./menu";
import { notifyProblem } from "./notice";
import { Pager } from "./pager";
import { PlanPicture } from "./plan-picture";

interface Props {
  database: string;
  container: string;
}

type Face = "table" | "json" | "chart" | "plan" | "statistics";

export function QueryView({ database, container }: Props) {
  const run = useMemo(() => new QueryRun(database, container), []);
  const language = useMemo(() => {
    const functions = () => scripts(database, container, "udfs").peek().value?.map(({ id }) => id) ?? [];
    return queryLanguage(() => seenPaths(database, container), functions);
  }, []);
  const hasSettings = useSignal(false);
  useEffect(() => run.keepText(), []);
  useSignalEffect(() => {
    const wanted = wantedQuery.value;
    if (wanted?.database !== database || wanted.container !== container) return;
    wantedQuery.value = null;
    void run.show(wanted.text);
  });
  // Another page size starts from the first page; at first there is nothing to start.
  useEffect(() => {
    if (run.outcome.peek() !== null) void run.run();
  }, [pageSize.value]);

  return (
    // Keys work wherever one is in the view, not in the editor alone.
    <div class="query-view" onKeyDown={(event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
      event.preventDefault();
      void run.run();
    }}>
      <div class="toolbar">
        {run.isRunning.value
          ? <button type="button" onClick={() => run.stop()}><Icon name="stop" />Stop</button>
          : <button type="button" class="primary" title="Ctrl Enter" onClick={() => void run.run()}><Icon name="run" size={12} />Run</button>}
        <button type="button" aria-expanded={hasSettings.value} onClick={() => (hasSettings.value = !hasSettings.value)}><Icon name="settings" />Parameters</button>
        <span class="grow" />
        <Past where={run.where} onChoose={(text) => (run.text.value = text)} />
        <Saved run={run} onChoose={(text) => (run.text.value = text)} />
        <ExportMenu run={run} />
      </div>
      {hasSettings.value && (
        <div class="toolbar query-settings">
          <label class="inline muted grow">Partition key
            <input class="mono grow" spellcheck={false} autocomplete="off" placeholder='all, or a value such as "contoso"' value={run.partitionKey.value} onInput={(event) => (run.partitionKey.value = event.currentTarget.value)} />
          </label>
          <label class="inline muted grow">Parameters
            <input class="mono grow" spellcheck={false} autocomplete="off" placeholder='{"@max": 50}' value={run.parameters.value} onInput={(event) => (run.parameters.value = event.currentTarget.value)} />
          </label>
        </div>
      )}
      <div class="query-editor">
        <CodeEditor
          label="Query" language={language} text={run.text.value} faults={run.faults.value} isFilling isFocused
          onChange={(text) => (run.text.value = text)}
          keys={{ "Mod-Enter": () => void run.run(), "Shift-Enter": () => void run.run() }}
        />
      </div>
      {run.error.value !== null && <p class="problem bar" role="alert">{run.error.value}</p>}
      <Results run={run} />
    </div>
  );
}

function Results({ run }: { run: QueryRun }) {
  const face = useSignal<Face>("table");
  /** The order of the page shown, by a click on a header. */
  const sort = useSignal<Sort | null>(null);
  const outcome = run.outcome.value;
  if (outcome === null) {
    return <p class="empty">{run.error.value === null && (run.isRunning.value ? "Running…" : "Ctrl Enter runs the query.")}</p>;
  }
  const faces: [Face, string][] = [["table", "Table"], ["json", "JSON"], ["chart", "Chart"]];
  if (outcome.plan !== null) faces.push(["plan", "Plan"]);
  faces.push(["statistics", "Statistics"]);
  const shown = faces.some(([one]) => one === face.value) ? face.value : "table";
  return (
    <div class={run.isOutdated.value ? "results outdated" : "results"}>
      {run.isOutdated.value && (
        <p class="outdated-note" role="status">
          The query has changed since these rows were read.
          {" "}<button type="button" class="link" onClick={() => void run.run()}>Run it again</button>
        </p>
      )}
      <div class="results-bar">
        <div class="segmented" role="tablist" aria-label="Results">
          {faces.map(([one, label]) => <button type="button" role="tab" key={one} aria-selected={shown === one} onClick={() => (face.value = one)}>{label}</button>)}
        </div>
        <span class="grow" />
        <span class="measure"><b>{outcome.rows.length.toLocaleString()}</b> {outcome.rows.length === 1 ? "row" : "rows"}</span>
        <span class="measure"><b>{outcome.charge.toFixed(2)}</b> RU</span>
        <span class="measure"><b>{outcome.elapsedMs.toFixed(0)}</b> ms</span>
      </div>
      {shown === "table" && (
        <Grid
          label="Rows" rows={sort.value === null ? outcome.rows : sortRows(outcome.rows, sort.value.column, sort.value.isDescending)}
          columns={shownColumns(outcome.rows)} empty="No rows." sort={sort.value} onSort={(column) => (sort.value = nextSort(sort.value, column))}
          onSelect={(row) => openDialog(<RowDialog row={row} />)}
        />
      )}
      {shown === "json" && <CodeEditor label="Rows as JSON" language="json" text={prettyJson(outcome.rows)} isReadOnly isFilling />}
      {shown === "chart" && <Chart rows={outcome.rows} />}
      {shown === "plan" && outcome.plan !== null && <PlanPicture plan={withClauses(outcome.plan, outcome.text)} />}
      {shown === "statistics" && <Statistics outcome={outcome} />}
      <Pager paging={run.paging.value} count={outcome.rows.length} isLoading={run.isRunning.value} onGo={(paging) => void run.go(paging)} />
    </div>
  );
}

function RowDialog({ row }: { row: Json }) {
  return (
    <Dialog title="Row" isWide>
      <CodeEditor label="Row" language="json" text={prettyJson(row)} isReadOnly />
    </Dialog>
  );
}

function Statistics({ outcome }: { outcome: Outcome }) {
  const times = outcome.metrics.filter(({ unit, name, value }) => unit === "ms" && name !== "total" && value > 0);
  const longest = Math.max(...times.map(({ value }) => value), 0.001);
  const counts = outcome.metrics.filter(({ unit }) => unit !== "ms");
  const total = outcome.metrics.find(({ name }) => name === "total");
  return (
    <div class="statistics" tabIndex={0} role="group" aria-label="Statistics">
      <table class="plain">
        <tbody>
          <tr><td>charge</td><td class="number">{outcome.charge.toFixed(2)} RU</td></tr>
          <tr><td>round trip</td><td class="number">{outcome.elapsedMs.toFixed(1)} ms</td></tr>
          {outcome.serverMs !== null && <tr><td>server time</td><td class="number">{outcome.serverMs.toFixed(3)} ms</td></tr>}
          {total && <tr><td>execution time</td><td class="number">{total.value} ms</td></tr>}
          {counts.map(({ name, value, unit }) => <tr key={name}><td>{name}</td><td class="number">{value.toLocaleString()} {unit}</td></tr>)}
        </tbody>
      </table>
      {times.length > 0 && (
        <table class="plain">
          <thead><tr><th colspan={3}>Execution time by phase</th></tr></thead>
          <tbody>
            {times.map(({ name, value }) => (
              <tr key={name}>
                <td>{name}</td>
                <td class="bar-cell"><i style={{ width: `${(value / longest) * 100}%` }} /></td>
                <td class="number">{value} ms</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {isObject(outcome.indexes ?? undefined) && (
        <table class="plain">
          <thead><tr><th>Indexes</th><th /></tr></thead>
          <tbody>
            {Object.entries(outcome.indexes as Record<string, Json>).map(([name, list]) => (
              <tr key={name}><td>{name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase()}</td><td class="mono">{Array.isArray(list) && list.length > 0 ? list.map((one) => indexText(one)).join("\n") : "–"}</td></tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

function indexText(index: Json): string {
  if (!isObject(index)) return compactJson(index);
  const spec = index.IndexSpec ?? index.IndexSpecs;
  return spec === undefined ? compactJson(index) : Array.isArray(spec) ? spec.join(", ") : String(spec);
}

function Past({ where, onChoose }: { where: string; onChoose: (text: string) => void }) {
  const past = queryHistory.value.filter((one) => one.where === where);
  return (
    <Menu label="History" icon="refresh" isDisabled={past.length === 0}>
      {(shut) => past.map(({ text, at }) => (
        <button type="button" class="menu-row" key={at} title={text} onClick={() => {
          onChoose(text);
          shut();
        }}>
          <span class="mono">{text}</span><span class="muted">{new Date(at).toLocaleString()}</span>
        </button>
      ))}
    </Menu>
  );
}

function Saved({ run, onChoose }: { run: QueryRun; onChoose: (text: string) => void }) {
  const ofDemo = demoQueriesOf(run.database, run.container);
  return (
    <Menu label="Saved" icon="save">
      {(shut) => (
        <>
          {ofDemo.map(({ name, text }) => (
            <button type="button" class="menu-row" key={name} title={text} onClick={() => {
              onChoose(text);
              shut();
            }}>
              <span>{name}</span><span class="mono muted">{text}</span>
            </button>
          ))}
          {savedQueries.value.map((saved) => (
            <div class="menu-line" key={saved.name}>
              <button type="button" class="menu-row" title={saved.text} onClick={() => {
                onChoose(saved.text);
                shut();
              }}>
                <span>{saved.name}</span><span class="mono muted">{saved.text}</span>
              </button>
              <button type="button" class="quiet" aria-label={`Forget ${saved.name}`} onClick={() => (savedQueries.value = savedQueries.value.filter(({ name }) => name !== saved.name))}><Icon name="close" size={11} /></button>
            </div>
          ))}
          <button type="button" class="link" onClick={() => {
            shut();
            openDialog(<SaveQuery text={run.text.value} />);
          }}>Save this query…</button>
        </>
      )}
    </Menu>
  );
}

function SaveQuery({ text }: { text: string }) {
  const name = useSignal("");
  const submit = async () => {
    const wanted = name.value.trim();
    if (wanted === "") throw new Error("Give the query a name.");
    savedQueries.value = [...savedQueries.value.filter((saved) => saved.name !== wanted), { name: wanted, text }];
  };
  return (
    <Dialog title="Save query" action="Save" onSubmit={submit}>
      <label class="field"><span class="label">Name</span>
        <input name="name" autofocus autocomplete="off" value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
      </label>
      <p class="fine muted">Saved queries stay in this browser.</p>
    </Dialog>
  );
}

function ExportMenu({ run }: { run: QueryRun }) {
  const save = (kind: "json" | "csv", rows: readonly Json[]) => {
    const name = `${run.container}.${kind}`;
    if (kind === "json") download(name, "application/json", [prettyJson([...rows])]);
    else download(name, "text/csv", [csv(rows, columnsOf(rows))]);
  };
  const saveAll = async (kind: "json" | "csv") => {
    try {
      save(kind, await run.all());
    } catch (problem) {
      notifyProblem(problem);
    }
  };
  return (
    <Menu label="Export" icon="download" isDisabled={run.outcome.value === null}>
      {(shut) => {
        const choice = (label: string, act: () => void) => (
          <button type="button" class="menu-row" onClick={() => {
            act();
            shut();
          }}>{label}</button>
        );
        return (
          <>
            {choice("This page as JSON", () => save("json", run.outcome.value!.rows))}
            {choice("This page as CSV", () => save("csv", run.outcome.value!.rows))}
            {choice("All rows as JSON", () => void saveAll("json"))}
            {choice("All rows as CSV", () => void saveAll("csv"))}
          </>
        );
      }}
    </Menu>
  );
}
