// A button with something that opens under it, until one clicks elsewhere.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon, type IconName } from "./icon";

interface Props {
  label: string;
  icon: IconName;
  isDisabled?: boolean;
  /** Shows the icon alone; the label is its name. */
  isQuiet?: boolean;
  children: (shut: () => void) => ComponentChildren;
}

export function Menu({ label, icon, isDisabled = false, isQuiet = false, children }: Props) {
  const isOpen = useSignal(false);
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const away = (event: Event) => {
      if (!element.current?.contains(event.target as Node)) isOpen.value = false;
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, []);
  const shut = () => (isOpen.value = false);
  return (
    <div class="menu-anchor" ref={element} onKeyDown={(event) => event.key === "Escape" && shut()}>
      <button
        type="button" class={isQuiet ? "quiet" : ""} aria-label={isQuiet ? label : undefined} title={isQuiet ? label : undefined}
        aria-expanded={isOpen.value} disabled={isDisabled} onClick={() => (isOpen.value = !isOpen.value)}
      >
        <Icon name={icon} />{!isQuiet && label}
      </button>
      {isOpen.value && <div class="menu" role="group" aria-label={label}>{children(shut)}</div>}
    </div>
  );
}
