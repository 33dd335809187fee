// Which columns the grid shows: a list of ticks that opens under its button.
import { Menu } from "./menu";

interface Props {
  all: readonly string[];
  shown: readonly string[];
  /** Null: as it was at first. */
  onChange: (columns: string[] | null) => void;
}

export function ColumnChooser({ all, shown, onChange }: Props) {
  const offered = [...shown, ...all.filter((column) => !shown.includes(column))];
  const flip = (column: string) =>
    onChange(shown.includes(column) ? shown.filter((one) => one !== column) : [...shown, column]);
  return (
    <Menu label="Columns" icon="columns">
      {() => (
        <>
          {offered.map((column) => (
            <label class="check" key={column}>
              <input type="checkbox" checked={shown.includes(column)} onChange={() => flip(column)} />
              <span class="mono">{column}</span>
            </label>
          ))}
          <button type="button" class="link" onClick={() => onChange(null)}>Reset</button>
        </>
      )}
    </Menu>
  );
}
