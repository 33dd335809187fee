// The processes that serve the same store: whether they live, and what each does beside requests.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { type StoreNode, jobSummary, jobText } from "../protocol/nodes";
import { counted } from "../protocol/plan";
import { NodesWatch } from "../state/nodes-watch";
import { activeAddress, addressOf } from "../state/tabs";
import { isPageVisible } from "../state/visibility";
import { elapsedText } from "../text/elapsed";
import { Icon } from "./icon";

const COLUMNS = 7;
/** A node may hold a lease for each container; the list is for looking, not for all of them. */
const JOBS_SHOWN = 200;

export function NodesView() {
  const watch = useMemo(() => new NodesWatch(), []);
  // Nothing is read while nobody sees it.
  useSignalEffect(() => {
    if (isPageVisible.value && activeAddress.value === addressOf({ kind: "nodes" })) watch.start();
    else watch.stop();
  });
  useEffect(() => () => watch.stop(), []);
  const { nodes: { value: found }, error: { value: error }, readAt: { value: readAt } } = watch;
  const age = readAt === null ? "" : ` What is shown was read at ${readAt.toLocaleTimeString()}.`;
  return (
    <div class="page home" aria-busy={found === null && error === null}>
      <h1>Nodes</h1>
      {error !== null && <p class="problem" role="alert">{error}{age}</p>}
      {found?.isShared === false && <p>This server is the only process of its store.</p>}
      {found?.isShared && (
        <>
          <p class="muted">
            {summary(found.nodes)} Any of them serves any request; work beside requests is done by the node that holds its lease, and moves to another one when a node dies.
          </p>
          <div class="card home-card" tabIndex={0} role="group" aria-label="Nodes of the store">
            <table class="plain nodes">
              <thead>
                <tr>
                  <th class="number">Node</th><th>Host</th><th class="not-narrow">Version</th><th class="not-narrow">Started</th>
                  <th class="number">Heartbeat</th><th class="number">Lag</th><th class="number">Jobs</th>
                </tr>
              </thead>
              {found.nodes.map((node) => <NodeRows key={node.number} node={node} />)}
            </table>
          </div>
        </>
      )}
    </div>
  );
}

function summary(nodes: readonly StoreNode[]): string {
  const dead = nodes.filter(({ isDead }) => isDead).length;
  const live = nodes.length - dead;
  return `${counted(live, "nodes")} ${live === 1 ? "serves" : "serve"} this store${dead > 0 ? `, ${dead} ${dead === 1 ? "has" : "have"} died` : ""}.`;
}

function NodeRows({ node }: { node: StoreNode }) {
  const isOpen = useSignal(false);
  const listId = `jobs-of-node-${node.number}`;
  const started = <time dateTime={node.startedAt.toISOString()}>{node.startedAt.toLocaleString()}</time>;
  return (
    <tbody aria-label={`Node ${node.number}`}>
      <tr>
        <td class="number">{node.number}</td>
        <td>
          <div><span class="mono">{node.host}</span>{node.isSelf && <span class="muted fine"> answered</span>}</div>
          {node.addresses.map((address) => <div class="mono muted fine node-address" key={address}>{address}</div>)}
          <div class="only-narrow muted fine">{node.version}, started {elapsedText(node.uptimeS)} ago</div>
        </td>
        <td class="not-narrow">{node.version}</td>
        <td class="not-narrow">{started}<div class="muted fine">{elapsedText(node.uptimeS)} ago</div></td>
        <td class={node.isDead ? "number bad" : "number"}>{node.isDead && "dead, "}{(node.heartbeatAgeMs / 1000).toFixed(1)} s</td>
        <td class="number">{node.lagS.toLocaleString("en")} s</td>
        <td class="end">
          {node.jobs.length === 0 ? "0" : (
            <button type="button" class="quiet" aria-expanded={isOpen.value} aria-controls={isOpen.value ? listId : undefined}
              aria-label={`${counted(node.jobs.length, "jobs")} of node ${node.number}`} onClick={() => (isOpen.value = !isOpen.value)}>
              {node.jobs.length.toLocaleString("en")}<span class={isOpen.value ? "twist open" : "twist"}><Icon name="chevron" size={10} /></span>
            </button>
          )}
        </td>
      </tr>
      {isOpen.value && node.jobs.length > 0 && (
        <tr>
          <td colspan={COLUMNS} id={listId}>
            <p class="muted fine">{jobSummary(node.jobs)}</p>
            <ul class="node-jobs">
              {node.jobs.slice(0, JOBS_SHOWN).map((job, index) => <li key={index}>{jobText(job)}</li>)}
              {node.jobs.length > JOBS_SHOWN && <li class="muted">and {(node.jobs.length - JOBS_SHOWN).toLocaleString("en")} more, which <code class="mono">orrery nodes --json</code> lists</li>}
            </ul>
          </td>
        </tr>
      )}
    </tbody>
  );
}
