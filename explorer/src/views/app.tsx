// Connect screen or workspace, and what may lie over them. The workspace, with the code editor in it, is
// a file of its own: the connect screen does not wait for it.
import { signal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect } from "preact/hooks";
import { account, isStarting } from "../state/account";
import { Connect } from "./connect";
import { DialogHost } from "./dialog";
import { NoticeHost } from "./notice";

const workspace = signal<FunctionComponent | null>(null);
const hasFailed = signal(false);

/** Fetches the workspace, once. */
export async function loadWorkspace(): Promise<void> {
  if (workspace.value !== null) return;
  try {
    workspace.value = (await import("./shell")).Shell;
    hasFailed.value = false;
  } catch {
    hasFailed.value = true;
  }
}

export function App() {
  const isConnected = account.value !== null;
  useEffect(() => {
    if (isConnected) void loadWorkspace();
  }, [isConnected]);
  if (isStarting.value) return null;
  const Workspace = workspace.value;
  return (
    <>
      {!isConnected ? <Connect onStart={() => void loadWorkspace()} /> : Workspace !== null ? <Workspace /> : <Waiting />}
      <DialogHost />
      <NoticeHost />
    </>
  );
}

/** A server of another version has other files; the page must be loaded again. */
function Waiting() {
  if (!hasFailed.value) return <main class="waiting" aria-busy="true" />;
  return (
    <main class="waiting">
      <p class="problem" role="alert">The server did not send the page's files. It may have been restarted with another version.</p>
      <button type="button" class="primary" onClick={() => location.reload()}>Reload the page</button>
    </main>
  );
}
