// Saves a drawing of the page as an SVG file of its own: what style sheets say is written into it.
import { download } from "../text/download";
import { Icon } from "./icon";

/** What a drawing's look consists of. */
const PROPERTIES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "font-family",
  "font-size", "font-weight", "text-anchor", "paint-order",
];
const MARGIN = 12;

/** The drawing as the text of a file; `part` is the element whose own coordinates are drawn, whatever part of it is seen. */
export function svgFile(drawing: SVGSVGElement, part: SVGGraphicsElement = drawing): string {
  const { x, y, width, height } = part.getBBox();
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, index) => {
    const style = getComputedStyle(originals[index]!);
    for (const property of PROPERTIES) {
      const value = style.getPropertyValue(property);
      if (value !== "") element.setAttribute(property, value);
    }
    for (const attribute of ["class", "role", "tabindex", "style", "aria-label", "aria-pressed"]) element.removeAttribute(attribute);
  });
  // The viewport's move and size are the screen's, not the picture's.
  if (part !== drawing) copy.querySelector("g")?.removeAttribute("transform");
  const [w, h] = [Math.ceil(width + 2 * MARGIN), Math.ceil(height + 2 * MARGIN)];
  const viewBox = `${Math.floor(x - MARGIN)} ${Math.floor(y - MARGIN)} ${w} ${h}`;
  for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", viewBox, width: w, height: h })) copy.setAttribute(name, String(value));
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const [left, top] = viewBox.split(" ");
  const background = getComputedStyle(document.body).backgroundColor;
  for (const [name, value] of Object.entries({ x: left!, y: top!, width: w, height: h, fill: background })) paper.setAttribute(name, String(value));
  copy.prepend(paper);
  return new XMLSerializer().serializeToString(copy);
}

interface Props {
  name: string;
  /** Finds the drawing when it is wanted. */
  find: () => { drawing: SVGSVGElement; part?: SVGGraphicsElement } | null;
}

export function ExportPicture({ name, find }: Props) {
  const save = () => {
    const found = find();
    if (found) download(`${name}.svg`, "image/svg+xml", [svgFile(found.drawing, found.part)]);
  };
  return <button type="button" aria-label="Export the picture as SVG" title="Export the picture as SVG" onClick={save}><Icon name="download" size={12} /></button>;
}
