// Users of a database and what each may do: permissions, with the tokens that carry them.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { parseJson, type JsonObject } from "../protocol/json";
import { describe } from "../protocol/problem";
import { type Permission, create, databasePath, listAll, remove, replace } from "../protocol/resources";
import { client } from "../state/account";
import { containers, reloadUsers, users } from "../state/catalog";
import { copyText } from "./copy-text";
import { Dialog, confirmSmallDeletion, openDialog } from "./dialog";
import { Icon } from "./icon";

export function UsersView({ database }: { database: string }) {
  const state = users(database).value;
  const chosen = useSignal<string | null>(null);
  const path = [...databasePath(database), "users"];
  const erase = (id: string) =>
    confirmSmallDeletion(`the user ${id}`, async () => {
      await remove(client(), [...path, id]);
      if (chosen.value === id) chosen.value = null;
      await reloadUsers(database);
    });
  return (
    <div class="page">
      <h1><span class="mono">{database}</span> users</h1>
      <p class="muted">A user has permissions. Each has a resource token that grants read or full access to one resource, without the account key.</p>
      {state.error !== null && <p class="problem" role="alert">{state.error}</p>}
      <section class="card">
        <h2>Users</h2>
        <table class="plain">
          <tbody>
            {(state.value ?? []).map(({ id }) => (
              <tr key={id} aria-selected={chosen.value === id}>
                <td><button type="button" class="link mono" onClick={() => (chosen.value = id)}>{id}</button></td>
                <td class="end">
                  <button type="button" class="quiet" aria-label={`Rename ${id}`} onClick={() => openDialog(<UserDialog database={database} old={id} />)}>Rename</button>
                  <button type="button" class="quiet" aria-label={`Delete ${id}`} onClick={() => erase(id)}><Icon name="trash" /></button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {state.value?.length === 0 && <p class="muted">No users yet.</p>}
        <button type="button" onClick={() => openDialog(<UserDialog database={database} old={null} />)}><Icon name="plus" />New user</button>
      </section>
      {chosen.value !== null && <Permissions key={chosen.value} database={database} user={chosen.value} />}
    </div>
  );
}

function UserDialog({ database, old }: { database: string; old: string | null }) {
  const id = useSignal(old ?? "");
  const path = [...databasePath(database), "users"];
  const submit = async () => {
    if (old === null) await create(client(), path, { id: id.value });
    else await replace(client(), [...path, old], { id: id.value });
    await reloadUsers(database);
  };
  return (
    <Dialog title={old === null ? "New user" : `Rename ${old}`} action={old === null ? "Create" : "Rename"} onSubmit={submit}>
      <label class="field">
        <span class="label">Name</span>
        <input name="id" autofocus autocomplete="off" spellcheck={false} value={id.value} onInput={(event) => (id.value = event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}

function Permissions({ database, user }: { database: string; user: string }) {
  const path = [...databasePath(database), "users", user, "permissions"];
  const list = useSignal<Permission[] | null>(null);
  const error = useSignal<string | null>(null);
  const load = async () => {
    try {
      list.value = await listAll<Permission>(client(), path);
    } catch (problem) {
      error.value = describe(problem);
    }
  };
  useEffect(() => void load(), []);
  return (
    <section class="card">
      <h2>Permissions of <span class="mono">{user}</span></h2>
      {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
      <table class="plain">
        <thead><tr><th>Name</th><th>Mode</th><th>Resource</th><th>Partition key</th><th /></tr></thead>
        <tbody>
          {(list.value ?? []).map((permission) => (
            <tr key={permission.id}>
              <td class="mono">{permission.id}</td>
              <td>{permission.permissionMode.toLowerCase() === "all" ? "All" : "Read"}</td>
              <td class="mono">{permission.resource}</td>
              <td class="mono">{permission.resourcePartitionKey === undefined ? "" : JSON.stringify(permission.resourcePartitionKey)}</td>
              <td class="end">
                <button type="button" class="quiet" title="Copy the token" aria-label={`Copy the token of ${permission.id}`} onClick={() => void copyText(permission._token, `Copied the token of ${permission.id}.`)}><Icon name="copy" /></button>
                <button type="button" class="quiet" aria-label={`Delete ${permission.id}`} onClick={() => confirmSmallDeletion(`the permission ${permission.id}`, async () => {
                  await remove(client(), [...path, permission.id]);
                  await load();
                })}><Icon name="trash" /></button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {list.value?.length === 0 && <p class="muted">No permissions yet.</p>}
      <button type="button" onClick={() => openDialog(<NewPermission database={database} path={path} onDone={load} />)}><Icon name="plus" />New permission</button>
    </section>
  );
}

function NewPermission({ database, path, onDone }: { database: string; path: readonly string[]; onDone: () => Promise<void> }) {
  const all = containers(database).value.value ?? [];
  const id = useSignal("");
  const container = useSignal(all[0]?.id ?? "");
  const mode = useSignal("Read");
  const key = useSignal("");
  const submit = async () => {
    const body: JsonObject = { id: id.value, permissionMode: mode.value, resource: `dbs/${database}/colls/${container.value}` };
    if (key.value.trim() !== "") {
      const value = parseJson(key.value);
      body.resourcePartitionKey = Array.isArray(value) ? value : [value];
    }
    await create(client(), path, body);
    await onDone();
  };
  return (
    <Dialog title="New permission" action="Create" onSubmit={submit}>
      <label class="field"><span class="label">Name</span>
        <input name="id" autofocus autocomplete="off" spellcheck={false} value={id.value} onInput={(event) => (id.value = event.currentTarget.value)} />
      </label>
      <label class="field"><span class="label">Container</span>
        <select value={container.value} onChange={(event) => (container.value = event.currentTarget.value)}>
          {all.map((one) => <option key={one.id} value={one.id}>{one.id}</option>)}
        </select>
      </label>
      <fieldset class="field"><legend class="label">Mode</legend>
        <div class="segmented">
          {[["Read", "Read"], ["All", "All operations"]].map(([value, label]) => (
            <button type="button" key={value} aria-pressed={mode.value === value} onClick={() => (mode.value = value!)}>{label}</button>
          ))}
        </div>
      </fieldset>
      <label class="field"><span class="label">Only this partition key, as JSON (optional)</span>
        <input class="mono" autocomplete="off" spellcheck={false} placeholder='"contoso"' value={key.value} onInput={(event) => (key.value = event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}
