// Settings of a database.
import { containers, databases } from "../state/catalog";
import { open } from "../state/tabs";
import { ThroughputCard } from "./container-settings";
import { openDialog } from "./dialog";
import { Icon } from "./icon";
import { NewContainer } from "./new-container";
import { deleteDatabase } from "./tree";

export function DatabaseView({ database: name }: { database: string }) {
  const database = databases().value.value?.find(({ id }) => id === name);
  const inside = containers(name).value.value ?? [];
  if (!database) return null;
  return (
    <div class="page">
      <h1 class="mono">{name}</h1>
      <dl class="facts">
        <dt>Written</dt><dd>{new Date(database._ts * 1000).toLocaleString()}</dd>
        <dt>_rid</dt><dd class="mono">{database._rid}</dd>
      </dl>
      <section class="card">
        <h2>Containers</h2>
        <table class="plain">
          <thead><tr><th>Name</th><th>Partition key</th></tr></thead>
          <tbody>
            {inside.map((container) => (
              <tr key={container.id}>
                <td><button type="button" class="link mono" onClick={() => open({ kind: "items", database: name, container: container.id })}>{container.id}</button></td>
                <td class="mono">{container.partitionKey.paths.join("  ›  ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <button type="button" onClick={() => openDialog(<NewContainer database={name} />)}><Icon name="plus" />New container</button>
      </section>
      <section class="card">
        <h2>Model</h2>
        <p class="muted">Types and relations as a picture, what the server keeps true, and what it advises.</p>
        <button type="button" onClick={() => open({ kind: "model", database: name })}><Icon name="model" />Open the model</button>
      </section>
      <ThroughputCard self={database._self} none="Each container has its own." />
      <section class="card">
        <h2>Delete</h2>
        <p class="muted">The database with everything in it.</p>
        <button type="button" class="danger" onClick={() => deleteDatabase(name)}>Delete database…</button>
      </section>
    </div>
  );
}
