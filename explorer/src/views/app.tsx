// Connect screen or workspace, and what may lie over them.
import { account, isStarting } from "../state/account";
import { Connect } from "./connect";
import { DialogHost } from "./dialog";
import { NoticeHost } from "./notice";
import { Shell } from "./shell";

export function App() {
  if (isStarting.value) return null;
  return (
    <>
      {account.value === null ? <Connect /> : <Shell />}
      <DialogHost />
      <NoticeHost />
    </>
  );
}
