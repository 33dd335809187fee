// A stored procedure, trigger or function: its text, and for what can be run, a place to run it with
// arguments and to read what it said.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo } from "preact/hooks";
import { CodeEditor } from "../editor/code-editor";
import type { Answer } from "../protocol/client";
import { type Json, type JsonObject, parseJson, prettyJson } from "../protocol/json";
import { asciiOnly } from "../protocol/partition-key";
import { Problem, describe } from "../protocol/problem";
import { type Script, type ScriptKind, containerPath, create, query, read, remove, replace } from "../protocol/resources";
import { client } from "../state/account";
import { reloadScripts } from "../state/catalog";
import { EditBuffer } from "../state/edit-buffer";
import { readPartitionKey } from "../state/query-run";
import { NEW_SCRIPT, addressOf, close, open } from "../state/tabs";
import { setUnsaved } from "../state/unsaved";
import { ConflictDialog } from "./conflict-dialog";
import { confirmGivingUp, confirmSmallDeletion, openDialog } from "./dialog";
import { Icon } from "./icon";
import { notifyDone } from "./notice";

interface Props {
  database: string;
  container: string;
  scripts: ScriptKind;
  script: string;
}

const WORDS: Record<ScriptKind, string> = { sprocs: "Stored procedure", triggers: "Trigger", udfs: "Function" };

const TEMPLATES: Record<ScriptKind, string> = {
  sprocs: `function count(minimum) {
  const container = getContext().getCollection();
  const query = { query: "SELECT VALUE COUNT(1) FROM c WHERE c.n >= @n", parameters: [{ name: "@n", value: minimum }] };
  container.queryDocuments(container.getSelfLink(), query, (error, rows) => {
    if (error) throw error;
    console.log("counted " + rows[0]);
    getContext().getResponse().setBody(rows[0]);
  });
}
`,
  triggers: `function stamp() {
  const request = getContext().getRequest();
  const item = request.getBody();
  item.touched = new Date().toISOString();
  request.setBody(item);
}
`,
  udfs: `function tax(price) {
  return price * 0.19;
}
`,
};

const OPERATIONS = ["All", "Create", "Update", "Replace", "Delete"];

export function ScriptView({ database, container, scripts, script: name }: Props) {
  const path = containerPath(database, container);
  const buffer = useMemo(() => new EditBuffer<Script>(null, (version) => version?.body ?? (name === NEW_SCRIPT ? TEMPLATES[scripts] : "")), []);
  const id = useSignal(name);
  const triggerType = useSignal("Pre");
  const triggerOperation = useSignal("All");
  const error = useSignal<string | null>(null);
  const isBusy = useSignal(false);
  const base = buffer.base.value;
  const isNew = name === NEW_SCRIPT;

  const address = addressOf({ kind: "script", database, container, scripts, script: name });
  useLayoutEffect(() => setUnsaved(address, buffer.isModified.value), [buffer.isModified.value]);
  useEffect(() => () => setUnsaved(address, false), []);

  const showTrigger = (script: Script) => {
    if (typeof script.triggerType === "string") triggerType.value = script.triggerType;
    if (typeof script.triggerOperation === "string") triggerOperation.value = script.triggerOperation;
  };
  const discard = (script: Script) => {
    buffer.reset(script);
    showTrigger(script);
  };
  const readStored = () => read<Script>(client(), [...path, scripts, name]);
  const load = () => readStored().then(discard, (problem: unknown) => (error.value = describe(problem)));
  const reload = () => {
    if (buffer.isModified.value) confirmGivingUp(`${name} holds changes that are not saved.`, () => void load());
    else void load();
  };
  useEffect(() => {
    if (!isNew) void load();
  }, []);

  const saveOver = async (body: JsonObject & { body: string }, over: Script) => {
    const saved = await replace<Script>(client(), [...path, scripts, name], body, over._etag);
    buffer.saved(saved, body.body);
    showTrigger(saved);
    notifyDone(`Saved ${name}.`);
  };
  const conflict = async (body: JsonObject & { body: string }) => {
    const theirs = await readStored();
    openDialog(
      <ConflictDialog
        id={name} mine={body.body} theirs={theirs.body}
        onTakeTheirs={() => discard(theirs)}
        onEditOn={() => buffer.rebase(theirs)}
        onOverwrite={() => saveOver(body, theirs)}
      />,
    );
  };
  const save = async () => {
    // A second save would send the etag that the first one is about to replace.
    if (isBusy.value || (base === null && !isNew)) return;
    isBusy.value = true;
    error.value = null;
    const body = { id: id.value, body: buffer.text.value };
    if (scripts === "triggers") Object.assign(body, { triggerType: triggerType.value, triggerOperation: triggerOperation.value });
    try {
      if (base === null) {
        await create<Script>(client(), [...path, scripts], body);
        await reloadScripts(database, container, scripts);
        close(address);
        open({ kind: "script", database, container, scripts, script: id.value });
      } else {
        await saveOver(body, base).catch((problem: unknown) => {
          if (problem instanceof Problem && problem.status === 412) return conflict(body);
          throw problem;
        });
      }
    } catch (problem) {
      error.value = describe(problem);
    } finally {
      isBusy.value = false;
    }
  };
  const erase = () =>
    confirmSmallDeletion(`${WORDS[scripts].toLowerCase()} ${name}`, async () => {
      await remove(client(), [...path, scripts, name]);
      close(address);
      await reloadScripts(database, container, scripts);
    });

  const isTrigger = scripts === "triggers";
  return (
    <>
      <div class="toolbar">
        <div class="script-head">
          <span class="muted">{WORDS[scripts]}</span>
          {isNew
            ? <input class="mono" aria-label="Name" placeholder="name" autocomplete="off" spellcheck={false} value={id.value} onInput={(event) => (id.value = event.currentTarget.value)} />
            : <h2 class="mono">{name}</h2>}
          {isTrigger && <Choice label="When" value={triggerType.value} options={["Pre", "Post"]} onChange={(value) => (triggerType.value = value)} />}
          {isTrigger && <Choice label="Operation" value={triggerOperation.value} options={OPERATIONS} onChange={(value) => (triggerOperation.value = value)} />}
        </div>
        {base !== null && <button type="button" title="Read it again" aria-label="Refresh" onClick={reload}><Icon name="refresh" /></button>}
        {base !== null && <button type="button" class="quiet" aria-label="Delete script" onClick={erase}><Icon name="trash" /></button>}
        <button type="button" class="primary" title="Ctrl S" disabled={isBusy.value || (base === null && !isNew)} onClick={() => void save()}>{isNew ? "Create" : "Save"}</button>
      </div>
      {error.value !== null && <p class="problem bar" role="alert">{error.value}</p>}
      {(isNew || base !== null) && (
        <CodeEditor label="Script" language="javascript" text={buffer.text.value} onChange={(now) => (buffer.text.value = now)} keys={{ "Mod-s": () => void save() }} isFilling />
      )}
      {base !== null && scripts === "sprocs" && <RunProcedure path={path} name={name} />}
      {base !== null && scripts === "udfs" && <RunFunction path={path} name={name} />}
    </>
  );
}

function Choice({ label, value, options, onChange }: { label: string; value: string; options: readonly string[]; onChange: (value: string) => void }) {
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {options.map((option) => <option key={option}>{option}</option>)}
    </select>
  );
}

interface Output {
  result: string;
  console: string;
  charge: number;
  elapsedMs: number;
}

function readArguments(text: string): Json[] {
  if (text.trim() === "") return [];
  let value: Json;
  try {
    value = parseJson(text);
  } catch {
    throw new Error('Arguments are a JSON array, such as ["a", 1].');
  }
  return Array.isArray(value) ? value : [value];
}

function showJson(text: string): string {
  if (text === "") return "(nothing)";
  try {
    return prettyJson(parseJson(text));
  } catch {
    return text;
  }
}

function output(answer: Answer, result: string): Output {
  const log = answer.headers.get("x-ms-documentdb-script-log-results") ?? "";
  return { result, console: decodeURIComponent(log), charge: answer.charge, elapsedMs: answer.elapsedMs };
}

function RunProcedure({ path, name }: { path: readonly string[]; name: string }) {
  const key = useSignal("");
  const execute = async (args: Json[]): Promise<Output> => {
    const partitionKey = readPartitionKey(key.value);
    if (partitionKey === undefined) throw new Error("A stored procedure runs within one partition key: enter its value.");
    const headers = { "x-ms-documentdb-partitionkey": asciiOnly(partitionKey), "x-ms-documentdb-script-enable-logging": "true" };
    const answer = await client().send({ method: "POST", segments: [...path, "sprocs", name], headers, body: args });
    return output(answer, showJson(answer.text));
  };
  return (
    <RunPanel onRun={execute}>
      <label class="inline muted grow">Partition key
        <input class="mono grow" spellcheck={false} autocomplete="off" placeholder='a value such as "contoso"' value={key.value} onInput={(event) => (key.value = event.currentTarget.value)} />
      </label>
    </RunPanel>
  );
}

function RunFunction({ path, name }: { path: readonly string[]; name: string }) {
  const execute = async (args: Json[]): Promise<Output> => {
    const parameters = args.map((value, index) => ({ name: `@a${index}`, value }));
    const text = `SELECT VALUE udf.${name}(${parameters.map((parameter) => parameter.name).join(", ")})`;
    const page = await query(client(), path, { query: text, parameters, pageSize: 1, continuation: null });
    return output(page.answer, page.rows.length === 0 ? "(undefined)" : prettyJson(page.rows[0]!));
  };
  return <RunPanel onRun={execute} />;
}

function RunPanel({ onRun, children }: { onRun: (args: Json[]) => Promise<Output>; children?: ComponentChildren }) {
  const args = useSignal("");
  const result = useSignal<Output | null>(null);
  const error = useSignal<string | null>(null);
  const isRunning = useSignal(false);
  const run = async (event: Event) => {
    event.preventDefault();
    isRunning.value = true;
    error.value = null;
    try {
      result.value = await onRun(readArguments(args.value));
    } catch (problem) {
      result.value = null;
      error.value = describe(problem);
    } finally {
      isRunning.value = false;
    }
  };
  return (
    <div class="run-panel">
      <form class="toolbar" onSubmit={run}>
        {children}
        <label class="inline muted grow">Arguments
          <input class="mono grow" spellcheck={false} autocomplete="off" placeholder='["a", 1]' value={args.value} onInput={(event) => (args.value = event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={isRunning.value}><Icon name="run" size={12} />Run</button>
        {result.value && <span class="measure"><b>{result.value.charge.toFixed(2)}</b> RU</span>}
        {result.value && <span class="measure"><b>{result.value.elapsedMs.toFixed(0)}</b> ms</span>}
      </form>
      {error.value !== null && <p class="problem bar" role="alert">{error.value}</p>}
      {result.value && <><span class="overline">Result</span><pre class="output" tabIndex={0} role="group" aria-label="Result">{result.value.result}</pre></>}
      {result.value && result.value.console !== "" && <><span class="overline">Console</span><pre class="output" tabIndex={0} role="group" aria-label="Console">{result.value.console}</pre></>}
    </div>
  );
}
