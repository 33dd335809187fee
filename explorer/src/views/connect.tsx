// The first thing one sees: an address, a key, and plain words when the key is wrong.
import { useSignal } from "@preact/signals";
import { type Keep, connect, connectLocally, endpoint, isLocal } from "../state/account";
import { describe } from "../protocol/problem";
import { Mark } from "./mark";
import { ThemeSwitch } from "./theme-switch";

/** `onStart` is called when a key is tried, so that what comes next can be fetched meanwhile. */
export function Connect({ onStart }: { onStart: () => void }) {
  const key = useSignal("");
  const keep = useSignal<Keep>("session");
  const error = useSignal<string | null>(null);
  const isBusy = useSignal(false);

  const attempt = async (run: () => Promise<void>) => {
    isBusy.value = true;
    error.value = null;
    onStart();
    try {
      await run();
    } catch (problem) {
      error.value = describe(problem);
    } finally {
      isBusy.value = false;
    }
  };

  const submit = (event: Event) => {
    event.preventDefault();
    void attempt(() => connect(key.value, keep.value));
  };

  return (
    <main class="connect">
      <div class="connect-corner"><ThemeSwitch /></div>
      <form class="connect-card" onSubmit={submit}>
        <header>
          <Mark size={56} />
          <h1>Orrery</h1>
          <p class="muted">Data Explorer</p>
        </header>
        <div class="field">
          <span class="label">Endpoint</span>
          <output class="mono">{endpoint()}</output>
        </div>
        {isLocal() && (
          <>
            <button type="button" class="primary" disabled={isBusy.value} title="With the key that the emulator is known by, which a server on this machine accepts by default" onClick={() => void attempt(connectLocally)}>
              Sign in on this machine
            </button>
            <p class="connect-or muted">or with a key</p>
          </>
        )}
        <label class="field">
          <span class="label">Key or connection string, or Entra ID token</span>
          <input
            type="password"
            name="key"
            class="mono"
            autocomplete="off"
            spellcheck={false}
            autofocus
            value={key.value}
            onInput={(event) => (key.value = event.currentTarget.value)}
            aria-invalid={error.value !== null}
            aria-describedby="connect-note"
          />
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={keep.value === "browser"}
            onChange={(event) => (keep.value = event.currentTarget.checked ? "browser" : "session")}
          />
          Keep the key in this browser
        </label>
        {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
        <button class={isLocal() ? "" : "primary"} type="submit" disabled={isBusy.value}>
          {isBusy.value ? "Connecting…" : "Connect"}
        </button>
        <p id="connect-note" class="fine muted">
          The key signs each request in this browser and is never sent; a token is sent with each request. Unless it is kept,
          it is deleted when this tab is closed.
          {!window.isSecureContext && (
            <> This page was loaded over plain HTTP: others on the network can read what it sends and receives. Use HTTPS if you can.</>
          )}
          {" "}<a href="/_explorer/licences.txt">Licences</a>
        </p>
      </form>
    </main>
  );
}
