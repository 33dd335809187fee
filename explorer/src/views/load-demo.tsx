// Loads the demo databases, and says what each of them shows.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { client } from "../state/account";
import { reloadAll, reloadDatabases } from "../state/catalog";
import { type DemoCase, loadDemo, readDemo } from "../state/demo";
import { open } from "../state/tabs";
import { describe } from "../protocol/problem";
import { Dialog } from "./dialog";
import { notifyDone } from "./notice";

export function LoadDemo() {
  const cases = useSignal<readonly DemoCase[]>([]);
  const loaded = useSignal(0);
  const isLoading = useSignal(false);
  const error = useSignal<string | null>(null);
  useEffect(() => void readDemo().then((all) => (cases.value = all), (problem: unknown) => (error.value = describe(problem))), []);
  const submit = async () => {
    isLoading.value = true;
    try {
      for (const demo of cases.value) {
        await loadDemo(client(), demo);
        loaded.value++;
      }
      await reloadDatabases();
      await reloadAll();
      notifyDone(`Loaded ${cases.value.length} databases. This is the model of one; the home page has queries before and after a model.`);
      open({ kind: "model", database: "demo-library" });
    } finally {
      isLoading.value = false;
      loaded.value = 0;
    }
  };
  return (
    <Dialog title="Load the demo" action="Load" onSubmit={submit}>
      <p>Databases that exist already are brought up to date; no others are touched.</p>
      <dl class="facts">
        {cases.value.map(({ name, about }) => <><dt class="mono">{name}</dt><dd>{about}</dd></>)}
      </dl>
      {isLoading.value && <progress aria-label="Loading the demo" max={cases.value.length} value={loaded.value} />}
      {error.value !== null && <p class="problem" role="alert">{error.value}</p>}
    </Dialog>
  );
}
