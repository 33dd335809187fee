// Light, dark, or as the system has it.
import { type Theme, theme } from "../state/preferences";
import { Icon, type IconName } from "./icon";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const ICONS: Record<Theme, IconName> = { system: "half", light: "sun", dark: "moon" };

export function ThemeSwitch() {
  const label = `Colours: ${theme.value}`;
  return (
    <button class="quiet" type="button" title={label} aria-label={label} onClick={() => (theme.value = NEXT[theme.value])}>
      <Icon name={ICONS[theme.value]} />
    </button>
  );
}
