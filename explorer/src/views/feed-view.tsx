// The change feed, live: what was written, newest first.
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { compactJson, isObject, prettyJson, withoutSystemProperties } from "../protocol/json";
import { findContainer } from "../state/catalog";
import { type Change, ChangeWatch, type Start } from "../state/change-watch";
import { activeAddress, addressOf, open } from "../state/tabs";
import { isPageVisible } from "../state/visibility";
import { Icon } from "./icon";

interface Props {
  database: string;
  container: string;
}

export function FeedView({ database, container }: Props) {
  const watch = useMemo(() => new ChangeWatch(database, container), []);
  const hasStarted = useSignal(false);
  useEffect(() => () => watch.stop(), []);
  const address = addressOf({ kind: "feed", database, container });
  useSignalEffect(() => watch.setShown(isPageVisible.value && activeAddress.value === address));
  const policy = findContainer(database, container)?.changeFeedPolicy;
  const minutes = isObject(policy) ? Number(policy.retentionDuration ?? 0) : 0;
  const isAll = watch.mode.value === "all";
  const begin = (from: Start) => {
    hasStarted.value = true;
    watch.start(from);
  };
  return (
    <>
      <div class="toolbar">
        <span class={watch.isLive.value ? "live-dot on" : "live-dot"} />
        <span>{watch.isLive.value ? "Watching" : hasStarted.value ? "Paused" : "Not watching"}</span>
        <span class="muted">{watch.count.value > 0 && `${watch.count.value.toLocaleString()} changes`}</span>
        <span class="grow" />
        {minutes > 0 && (
          <label class="check" title={`The container keeps every version for ${minutes.toLocaleString()} minutes`}>
            <input type="checkbox" role="switch" checked={isAll} onChange={(event) => watch.setMode(event.currentTarget.checked ? "all" : "latest")} />
            All versions and deletes
          </label>
        )}
        {watch.isLive.value && <button type="button" onClick={() => watch.stop()}><Icon name="pause" />Pause</button>}
        {!watch.isLive.value && hasStarted.value && <button type="button" class="primary" onClick={() => watch.resume()}><Icon name="run" size={12} />Resume</button>}
        <button type="button" onClick={() => begin("now")}>Watch from now</button>
        <button
          type="button" disabled={isAll} title={isAll ? "All versions are read from now on only" : ""}
          onClick={() => begin("beginning")}
        >
          From the beginning
        </button>
      </div>
      {watch.error.value !== null && <p class="problem bar" role="alert">{watch.error.value}</p>}
      <div class="feed" role="log" aria-label="Changes">
        {watch.changes.value.length === 0 && (
          <div class="empty">
            <p>{watch.isLive.value ? "Waiting for the next change." : isAll ? "Every version that is written appears here, and every delete." : "Each item that is created or replaced appears here with its latest version."}</p>
            {minutes === 0 && (
              <p class="fine">
                This container keeps no deletes and no intermediate versions.
                {" "}<button type="button" class="link" onClick={() => open({ kind: "settings", database, container })}>Its settings</button> can enable that.
              </p>
            )}
          </div>
        )}
        {watch.changes.value.map((change) => <ChangeRow key={change.number} change={change} />)}
      </div>
    </>
  );
}

/** The time of today, or the day. */
function whenWritten(at: Date): string {
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString() : at.toLocaleDateString();
}

function ChangeRow({ change: { at, item, operation, isExpired, isNew } }: { change: Change }) {
  const own = withoutSystemProperties(item);
  return (
    <div class={`feed-row${isNew ? " fresh" : ""}${operation === null ? "" : ` told ${operation}`}`}>
      <time class="muted" dateTime={at?.toISOString()} title={at === null ? undefined : `Written ${at.toLocaleString()}`}>{at === null ? "–" : whenWritten(at)}</time>
      {operation !== null && <span class="operation" title={isExpired ? "Its time to live had expired" : undefined}>{isExpired ? "expired" : operation}</span>}
      <b class="mono">{String(item.id)}</b>
      <details>
        <summary>{compactJson(own).slice(0, 300)}</summary>
        <pre>{prettyJson(own)}</pre>
      </details>
    </div>
  );
}
