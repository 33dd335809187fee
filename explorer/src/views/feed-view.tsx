// The change feed, live: what was written, newest first.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { compactJson, prettyJson, withoutSystemProperties } from "../protocol/json";
import { type Change, ChangeWatch } from "../state/change-watch";
import { Icon } from "./icon";

interface Props {
  database: string;
  container: string;
}

export function FeedView({ database, container }: Props) {
  const watch = useMemo(() => new ChangeWatch(database, container), []);
  const hasStarted = useSignal(false);
  useEffect(() => () => watch.stop(), []);
  const begin = (from: "now" | "beginning") => {
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
        {watch.isLive.value && <button type="button" onClick={() => watch.stop()}><Icon name="pause" />Pause</button>}
        {!watch.isLive.value && hasStarted.value && <button type="button" class="primary" onClick={() => watch.resume()}><Icon name="run" size={12} />Go on</button>}
        <button type="button" onClick={() => begin("now")}>Watch from now</button>
        <button type="button" onClick={() => begin("beginning")}>From the beginning</button>
      </div>
      {watch.error.value !== null && <p class="problem bar" role="alert">{watch.error.value}</p>}
      <div class="feed" role="log" aria-label="Changes">
        {watch.changes.value.length === 0 && <p class="empty">{watch.isLive.value ? "Waiting for the next change." : "Each item that is created or replaced appears here with its latest version."}</p>}
        {watch.changes.value.map((change) => <ChangeRow key={change.number} change={change} />)}
      </div>
    </>
  );
}

function ChangeRow({ change: { at, item } }: { change: Change }) {
  const own = withoutSystemProperties(item);
  return (
    <div class="feed-row fresh">
      <span class="muted">{at.toLocaleTimeString()}</span>
      <b class="mono">{String(item.id)}</b>
      <details>
        <summary>{compactJson(own).slice(0, 300)}</summary>
        <pre>{prettyJson(own)}</pre>
      </details>
    </div>
  );
}
