// The line at the bottom: the account, the last request, and a log of the latest ones.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { account, chargeTotal, lastRequest, requests } from "../state/account";
import { Icon } from "./icon";

export function StatusBar() {
  const isOpen = useSignal(false);
  const bar = useRef<HTMLElement>(null);
  const toggle = useRef<HTMLButtonElement>(null);
  const last = lastRequest.value;
  const shut = () => (isOpen.value = false);
  useEffect(() => {
    const away = (event: Event) => {
      if (!bar.current?.contains(event.target as Node)) shut();
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, []);
  return (
    <footer class="statusbar" ref={bar} onKeyDown={(event) => {
      if (event.key !== "Escape" || !isOpen.value) return;
      shut();
      toggle.current?.focus();
    }}>
      {isOpen.value && <RequestLog onClose={shut} />}
      <span>{account.value?.name}</span>
      <span class="not-narrow">{account.value?.consistency} consistency</span>
      <span class="grow" />
      {last && (
        <button ref={toggle} type="button" class="quiet mono" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)} title="The latest requests of this page">
          <span class={last.status >= 400 ? "bad" : ""}>{last.status}</span> {last.method} {last.what}
          <b>{last.charge.toFixed(2)} RU</b><b>{last.elapsedMs.toFixed(0)} ms</b>
        </button>
      )}
      <span class="mono" title="Request units charged to this page since it was loaded">Σ {chargeTotal.value.toFixed(1)} RU</span>
    </footer>
  );
}

function RequestLog({ onClose }: { onClose: () => void }) {
  return (
    <section class="request-log" aria-label="Request log">
      <header>
        <h2>Requests</h2><span class="muted">the latest {requests.value.length}</span>
        <span class="grow" />
        <button type="button" class="quiet" aria-label="Close the request log" onClick={onClose}><Icon name="close" size={12} /></button>
      </header>
      <div class="request-log-scroll" tabIndex={0} role="group" aria-label="Latest requests">
        <table class="plain">
          <thead><tr><th>Time</th><th>Request</th><th>Status</th><th class="number">RU</th><th class="number">ms</th></tr></thead>
          <tbody>
            {requests.value.map((request, index) => (
              <tr key={requests.value.length - index}>
                <td>{request.at.toLocaleTimeString()}</td>
                <td class="mono">{request.method} {decodeURIComponent(request.path)} {request.what && <i>{request.what}</i>}</td>
                <td class={request.status >= 400 ? "bad" : ""}>{request.status}</td>
                <td class="number">{request.charge.toFixed(2)}</td>
                <td class="number">{request.elapsedMs.toFixed(0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
