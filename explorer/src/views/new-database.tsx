// A new database: a name, and throughput to share if its containers shall share it.
import { useSignal } from "@preact/signals";
import { type Throughput, create, throughputHeaders } from "../protocol/resources";
import { client } from "../state/account";
import { reloadDatabases } from "../state/catalog";
import { open } from "../state/tabs";
import { Dialog } from "./dialog";
import { ThroughputField } from "./throughput-field";
import { reveal } from "./tree";

export function NewDatabase() {
  const id = useSignal("");
  const throughput = useSignal<Throughput>({ kind: "none" });
  const submit = async () => {
    await create(client(), ["dbs"], { id: id.value }, throughputHeaders(throughput.value));
    await reloadDatabases();
    reveal(`d/${id.value}`);
    open({ kind: "database", database: id.value });
  };
  return (
    <Dialog title="New database" action="Create" onSubmit={submit}>
      <label class="field">
        <span class="label">Name</span>
        <input name="id" autofocus autocomplete="off" spellcheck={false} value={id.value} onInput={(event) => (id.value = event.currentTarget.value)} />
      </label>
      <ThroughputField value={throughput} none="Each container its own" />
    </Dialog>
  );
}
