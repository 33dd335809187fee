// Roles of Entra ID principals, and who has them.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { describe } from "../protocol/problem";
import { type RoleAssignment, type RoleDefinition, create, listAll, remove } from "../protocol/resources";
import { client } from "../state/account";
import { Dialog, confirmSmallDeletion, openDialog } from "./dialog";
import { Icon } from "./icon";

const DEFINITIONS = ["_roledefinitions"];
const ASSIGNMENTS = ["_roleassignments"];
const ACCOUNT = "Microsoft.DocumentDB/databaseAccounts/";
const CONTAINERS = `${ACCOUNT}sqlDatabases/containers/`;

/** Actions as people choose them, by the names that the server knows them by. */
const ACTIONS: readonly (readonly [string, string])[] = [
  ["readMetadata", `${ACCOUNT}readMetadata`],
  ...["executeQuery", "readChangeFeed", "executeStoredProcedure", "manageConflicts"].map((name) => [name, CONTAINERS + name] as const),
  ...["create", "read", "replace", "upsert", "delete"].map((name) => [`items/${name}`, `${CONTAINERS}items/${name}`] as const),
];

/** A wildcard alone would look as if it permitted everything. */
const shortAction = (name: string) => name.replace(`${CONTAINERS}*`, "containers/*").replace(CONTAINERS, "").replace(ACCOUNT, "");

export function RolesView() {
  const roles = useSignal<RoleDefinition[]>([]);
  const assignments = useSignal<RoleAssignment[] | null>(null);
  const error = useSignal<string | null>(null);
  const load = async () => {
    try {
      roles.value = await listAll<RoleDefinition>(client(), DEFINITIONS);
      assignments.value = await listAll<RoleAssignment>(client(), ASSIGNMENTS);
      error.value = null;
    } catch (problem) {
      error.value = describe(problem);
    }
  };
  useEffect(() => void load(), []);
  const nameOf = (id: string) => roles.value.find((role) => role.id === id)?.roleName ?? id;
  const eraseRole = (role: RoleDefinition) =>
    confirmSmallDeletion(`the role ${role.roleName}`, async () => {
      await remove(client(), [...DEFINITIONS, role.id]);
      await load();
    });
  const revoke = (assignment: RoleAssignment) =>
    confirmSmallDeletion(`the assignment of ${nameOf(assignment.roleDefinitionId)} to ${assignment.principalId}`, async () => {
      await remove(client(), [...ASSIGNMENTS, assignment.id]);
      await load();
    });
  return (
    <div class="page">
      <h1>Roles</h1>
      <p class="muted">A role permits data actions. An assignment gives it to an Entra ID user, application or group, for the account, a database or a container.</p>
      {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
      <section class="card">
        <h2>Assignments</h2>
        <table class="plain">
          <thead><tr><th>Principal</th><th>Role</th><th>Scope</th><th /></tr></thead>
          <tbody>
            {(assignments.value ?? []).map((assignment) => (
              <tr key={assignment.id}>
                <td class="mono">{assignment.principalId}</td>
                <td>{nameOf(assignment.roleDefinitionId)}</td>
                <td class="mono">{assignment.scope}</td>
                <td class="end">
                  <button type="button" class="quiet" aria-label={`Revoke ${nameOf(assignment.roleDefinitionId)} of ${assignment.principalId}`} onClick={() => revoke(assignment)}><Icon name="trash" /></button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {assignments.value?.length === 0 && <p class="muted">No assignments yet.</p>}
        <button type="button" onClick={() => openDialog(<NewAssignment roles={roles.value} onDone={load} />)}><Icon name="plus" />New assignment</button>
      </section>
      <section class="card">
        <h2>Definitions</h2>
        <table class="plain">
          <thead><tr><th>Name</th><th>Actions</th><th>Assignable at</th><th /></tr></thead>
          <tbody>
            {roles.value.map((role) => (
              <tr key={role.id}>
                <td>{role.roleName}</td>
                <td class="mono">{role.permissions.flatMap(({ dataActions }) => dataActions).map(shortAction).join(", ")}</td>
                <td class="mono">{role.assignableScopes.join(", ")}</td>
                <td class="end">
                  {role.type === "CustomRole" && (
                    <button type="button" class="quiet" aria-label={`Delete ${role.roleName}`} onClick={() => eraseRole(role)}><Icon name="trash" /></button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        <button type="button" onClick={() => openDialog(<NewRole onDone={load} />)}><Icon name="plus" />New role</button>
      </section>
    </div>
  );
}

function NewRole({ onDone }: { onDone: () => Promise<void> }) {
  const name = useSignal("");
  const scope = useSignal("/");
  const chosen = useSignal<ReadonlySet<string>>(new Set([ACTIONS[0]![1]]));
  const choose = (action: string, isChosen: boolean) => {
    const next = new Set(chosen.value);
    if (isChosen) next.add(action);
    else next.delete(action);
    chosen.value = next;
  };
  const submit = async () => {
    const dataActions = ACTIONS.map(([, action]) => action).filter((action) => chosen.value.has(action));
    await create(client(), DEFINITIONS, {
      roleName: name.value, type: "CustomRole", assignableScopes: [scope.value], permissions: [{ dataActions }],
    });
    await onDone();
  };
  return (
    <Dialog title="New role" action="Create" onSubmit={submit}>
      <label class="field"><span class="label">Name</span>
        <input name="name" autofocus autocomplete="off" spellcheck={false} value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
      </label>
      <fieldset class="field"><legend class="label">Data actions</legend>
        {ACTIONS.map(([label, action]) => (
          <label class="check" key={action}>
            <input type="checkbox" checked={chosen.value.has(action)} onChange={(event) => choose(action, event.currentTarget.checked)} />
            <span class="mono">{label}</span>
          </label>
        ))}
      </fieldset>
      <label class="field"><span class="label">Assignable at</span>
        <input name="scope" class="mono" autocomplete="off" spellcheck={false} value={scope.value} onInput={(event) => (scope.value = event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}

function NewAssignment({ roles, onDone }: { roles: readonly RoleDefinition[]; onDone: () => Promise<void> }) {
  const role = useSignal(roles[0]?.id ?? "");
  const principal = useSignal("");
  const scope = useSignal("/");
  const submit = async () => {
    await create(client(), ASSIGNMENTS, { roleDefinitionId: role.value, principalId: principal.value.trim(), scope: scope.value.trim() });
    await onDone();
  };
  return (
    <Dialog title="New assignment" action="Assign" onSubmit={submit}>
      <label class="field"><span class="label">Role</span>
        <select value={role.value} onChange={(event) => (role.value = event.currentTarget.value)}>
          {roles.map((one) => <option key={one.id} value={one.id}>{one.roleName}</option>)}
        </select>
      </label>
      <label class="field"><span class="label">Principal: object id of a user, application or group</span>
        <input name="principal" class="mono" autofocus autocomplete="off" spellcheck={false} value={principal.value} onInput={(event) => (principal.value = event.currentTarget.value)} />
      </label>
      <label class="field"><span class="label">Scope: /, /dbs/{"{database}"} or /dbs/{"{database}"}/colls/{"{container}"}</span>
        <input name="scope" class="mono" autocomplete="off" spellcheck={false} value={scope.value} onInput={(event) => (scope.value = event.currentTarget.value)} />
      </label>
    </Dialog>
  );
}
