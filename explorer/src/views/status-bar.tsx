// The line at the bottom: the account, the last request, and a log of the latest ones.
import { useSignal } from "@preact/signals";
import { account, chargeTotal, lastRequest, requests } from "../state/account";

export function StatusBar() {
  const isOpen = useSignal(false);
  const last = lastRequest.value;
  return (
    <footer class="statusbar">
      {isOpen.value && <RequestLog />}
      <span>{account.value?.name}</span>
      <span class="not-narrow">{account.value?.consistency} consistency</span>
      <span class="grow" />
      {last && (
        <button type="button" class="quiet mono" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)} title="The latest requests of this page">
          <span class={last.status >= 400 ? "bad" : ""}>{last.status}</span> {last.method} {last.what}
          <b>{last.charge.toFixed(2)} RU</b><b>{last.elapsedMs.toFixed(0)} ms</b>
        </button>
      )}
      <span class="mono" title="Charge of everything this page has done">Σ {chargeTotal.value.toFixed(1)} RU</span>
    </footer>
  );
}

function RequestLog() {
  return (
    <div class="request-log">
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
  );
}
