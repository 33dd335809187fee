// The picture of a model: drag, wheel, pinch or keys move it; a type that is chosen shows what it is
// connected with, and its findings beside.
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Viewport } from "../state/viewport";
import { BOX_WIDTH, HEAD_HEIGHT, type PlacedBox, type PlacedLine, ROW_HEIGHT, placeDiagram } from "../text/diagram-layout";
import type { Diagram } from "../text/model-diagram";
import { counted } from "../protocol/plan";
import { ExportPicture } from "./export-picture";
import { Icon } from "./icon";
import { followPointers } from "./pointer-moves";

interface Props {
  diagram: Diagram;
  /** What a file of the picture is called. */
  name: string;
  selected: Signal<string | null>;
  /** Opens a relation: one that is declared, or a new one between two types. Null where there is no model to change. */
  onRelation: ((start: { from: string; path: string; to: string }) => void) | null;
  /** Whether everything was read, so that an empty picture is all there is. */
  isEmpty: boolean;
}

const STEP = 60;

export function ModelPicture({ diagram, name, selected, onRelation, isEmpty }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const viewport = useMemo(() => new Viewport(), []);
  const { boxes, lines, width, height } = useMemo(() => placeDiagram(diagram, viewport.isNarrow.value), [diagram, viewport.isNarrow.value]);
  useEffect(() => viewport.setPicture({ width, height }), [width, height]);
  useEffect(() => {
    const element = frame.current!;
    const observer = new ResizeObserver(() => viewport.setFrame({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    const stop = followPointers(element, viewport);
    return () => {
      observer.disconnect();
      stop();
    };
  }, []);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    switch (event.key) {
      case "ArrowLeft": viewport.pan(STEP, 0); break;
      case "ArrowRight": viewport.pan(-STEP, 0); break;
      case "ArrowUp": viewport.pan(0, STEP); break;
      case "ArrowDown": viewport.pan(0, -STEP); break;
      case "+": case "=": viewport.zoom(1.25); break;
      case "-": viewport.zoom(0.8); break;
      case "0": viewport.fit(); break;
      case "Escape": selected.value = null; break;
      default: return;
    }
    event.preventDefault();
  };
  /** A relation that is being drawn: where it begins, and where the pointer is, in the picture's coordinates. */
  const drawn = useSignal<{ from: string; path: string; start: Point; end: Point } | null>(null);
  const draw = (event: PointerEvent, from: string, path: string) => {
    event.stopPropagation();
    event.preventDefault();
    const port = event.currentTarget as SVGElement;
    port.setPointerCapture(event.pointerId);
    const at = (moved: PointerEvent): Point => {
      const { left, top } = frame.current!.getBoundingClientRect();
      const look = viewport.look.value;
      return { x: (moved.clientX - left - look.x) / look.scale, y: (moved.clientY - top - look.y) / look.scale };
    };
    drawn.value = { from, path, start: at(event), end: at(event) };
    const move = (moved: PointerEvent) => (drawn.value = { ...drawn.value!, end: at(moved) });
    const finish = (moved: PointerEvent) => {
      port.removeEventListener("pointermove", move);
      drawn.value = null;
      const target = document.elementsFromPoint(moved.clientX, moved.clientY).map((element) => element.closest<SVGElement>("[data-type]")).find((found) => found);
      const to = target?.dataset.type;
      if (to !== undefined && to !== from) onRelation?.({ from, path, to });
    };
    port.addEventListener("pointermove", move);
    port.addEventListener("pointerup", finish, { once: true });
  };
  const { x, y, scale } = viewport.look.value;
  const near = neighbours(lines, selected.value);
  return (
    <div class="picture">
      <div
        ref={frame} class="picture-frame" tabIndex={0} role="group" onKeyDown={onKeyDown}
        aria-label="Model as a picture. Arrow keys move it, plus and minus change its size, 0 shows all of it."
      >
        <svg width="100%" height="100%">
          <g transform={`translate(${x} ${y}) scale(${scale})`}>
            {lines.map((line, index) => <Arrow key={index} placed={line} onOpen={line.line.isDeclared ? onRelation : null} isDim={selected.value !== null && line.line.from !== selected.value && line.line.to !== selected.value} />)}
            {boxes.map((box) => (
              <Box
                key={box.box.name} placed={box} isSelected={selected.value === box.box.name} isDim={near !== null && !near.has(box.box.name)}
                onSelect={() => (selected.value = selected.value === box.box.name ? null : box.box.name)}
                onFocus={() => viewport.reveal({ ...box, width: BOX_WIDTH })}
                onDraw={onRelation !== null && box.box.isDeclared ? draw : null}
              />
            ))}
            {drawn.value !== null && <path class="model-line drawing" d={`M${drawn.value.start.x} ${drawn.value.start.y}L${drawn.value.end.x} ${drawn.value.end.y}`} />}
          </g>
        </svg>
        {isEmpty && boxes.length === 0 && <p class="empty">There are no types to draw: the database has no items and no model.</p>}
      </div>
      <div class="picture-tools" role="toolbar" aria-label="Picture">
        <button type="button" aria-label="Smaller" title="Smaller (−)" onClick={() => viewport.zoom(0.8)}><Icon name="minus" size={12} /></button>
        <span class="mono" title="Size">{Math.round(scale * 100)} %</span>
        <button type="button" aria-label="Larger" title="Larger (+)" onClick={() => viewport.zoom(1.25)}><Icon name="plus" size={12} /></button>
        <button type="button" aria-label="Show all" title="Show all (0)" onClick={() => viewport.fit()}><Icon name="fit" size={12} /></button>
        <ExportPicture name={name} find={() => {
          const drawing = frame.current?.querySelector("svg");
          const part = drawing?.querySelector("g");
          return drawing && part ? { drawing, part } : null;
        }} />
      </div>
      <ul class="picture-key" aria-label="Key">
        <li><svg width="26" height="8"><path class="model-line" d="M0 4H26" /></svg>declared</li>
        <li><svg width="26" height="8"><path class="model-line inferred" d="M0 4H26" /></svg>inferred from the data</li>
        <li><svg width="10" height="10"><circle class="mark-dot warning" cx="5" cy="5" r="3.5" /></svg>finding</li>
      </ul>
    </div>
  );
}

// Within SVG the attribute's name is written as it stands: `tabIndex` would be another one, and no key would lead there.

/** The chosen type and what it is connected with; null when nothing is chosen. */
function neighbours(lines: readonly PlacedLine[], selected: string | null): Set<string> | null {
  if (selected === null) return null;
  const own = lines.filter(({ line }) => line.from === selected || line.to === selected);
  return new Set([selected, ...own.flatMap(({ line }) => [line.from, line.to])]);
}

type Relation = { from: string; path: string; to: string };

interface ArrowProps {
  placed: PlacedLine;
  isDim: boolean;
  onOpen: ((relation: Relation) => void) | null;
}

function Arrow({ placed: { line, path, tip, label }, isDim, onOpen }: ArrowProps) {
  const edit = onOpen && (() => onOpen(line));
  const kind = `${line.isDeclared ? "" : " inferred"}${line.mark === null ? "" : ` ${line.mark}`}`;
  return (
    <g class={isDim ? "model-arrow dim" : "model-arrow"}>
      <title>{line.hint}</title>
      <path class={`model-line${kind}`} d={path} />
      {edit && (
        <path
          class="model-hit" d={path} role="button" tabindex={0} aria-label={`Edit the relation ${line.label}: ${line.from} ${line.path} to ${line.to}`}
          onClick={edit} onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            // Else the same key would go on to the dialog and submit it.
            event.preventDefault();
            edit();
          }}
        />
      )}
      <path class={`model-tip${kind}`} d={`M${tip.x} ${tip.y}l${-tip.way * 10} -4.5v9z`} />
      <text class="model-label" x={label.x} y={label.y + 4} text-anchor="middle">{clipped(line.label, 22)}</text>
    </g>
  );
}

interface BoxProps {
  placed: PlacedBox;
  isSelected: boolean;
  isDim: boolean;
  onSelect: () => void;
  onFocus: () => void;
  /** Begins to draw a relation from a path of the type. */
  onDraw: ((event: PointerEvent, from: string, path: string) => void) | null;
}

interface Point {
  x: number;
  y: number;
}

function Box({ placed: { box, x, y, height, rows, hidden }, isSelected, isDim, onSelect, onFocus, onDraw }: BoxProps) {
  const facts = [box.items === null ? null : counted(box.items, "items"), box.isDeclared ? null : "not declared"].filter((fact) => fact !== null);
  const label = [`${box.name} in ${box.container}`, ...facts, box.findings > 0 ? counted(box.findings, "findings") : "no findings"].join(", ");
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onSelect();
  };
  const kind = `model-box${box.isDeclared ? "" : " inferred"}${isSelected ? " selected" : ""}${isDim ? " dim" : ""}`;
  return (
    <g class={kind} data-type={box.isDeclared ? box.name : undefined} onClick={onSelect}>
      <rect
        class="frame" x={x} y={y} width={BOX_WIDTH} height={height} rx={7}
        role="button" tabindex={0} aria-pressed={isSelected} aria-label={label} onKeyDown={onKeyDown} onFocus={onFocus}
      />
      <path class="head" d={`M${x} ${y + HEAD_HEIGHT}v${7 - HEAD_HEIGHT}a7 7 0 0 1 7 -7h${BOX_WIDTH - 14}a7 7 0 0 1 7 7v${HEAD_HEIGHT - 7}z`} />
      <text class="model-name" x={x + 14} y={y + 20}>{clipped(box.name, 24)}</text>
      <text class="model-fact" x={x + 14} y={y + 36}>{clipped(`in ${box.container}`, 20)}{facts.length > 0 && ` · ${facts.join(" · ")}`}</text>
      {box.mark !== null && <circle class={`mark-dot ${box.mark}`} cx={x + BOX_WIDTH - 16} cy={y + 16} r={4.5} />}
      {rows.map((row, index) => {
        const line = y + HEAD_HEIGHT + index * ROW_HEIGHT + 16;
        return (
          <g key={row.path} class={`model-row ${row.kind}`}>
            <title>{`${row.path} ${row.kind}`}</title>
            {row.mark !== null && <circle class={`mark-dot ${row.mark}`} cx={x + 8} cy={line - 4} r={3.5} />}
            <text class="model-path" x={x + 16} y={line}>{clipped(row.path, 31 - row.kind.length)}</text>
            <text class="model-kind" x={x + BOX_WIDTH - 14} y={line} text-anchor="end">{row.kind}</text>
            {onDraw && (
              <circle class="model-port" cx={x + BOX_WIDTH} cy={line - 4} r={5} onPointerDown={(event) => onDraw(event, box.name, row.path)} onClick={(event) => event.stopPropagation()}>
                <title>{`Drag to another type: a relation from ${row.path}`}</title>
              </circle>
            )}
          </g>
        );
      })}
      {hidden > 0 && <text class="model-fact" x={x + 16} y={y + HEAD_HEIGHT + rows.length * ROW_HEIGHT + 16}>and {hidden} more</text>}
    </g>
  );
}

function clipped(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
