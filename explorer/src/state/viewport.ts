// The part of a picture that is seen: where its corner is and how large it is drawn.
import { signal } from "@preact/signals";

export interface Look {
  x: number;
  y: number;
  scale: number;
}

interface Size {
  width: number;
  height: number;
}

const SCALE_MIN = 0.15;
const SCALE_MAX = 3;
/** A picture that would be smaller than this is not fitted whole: nobody could read it. */
const FIT_MIN = 0.4;
const NARROW = 560;

export class Viewport {
  readonly look = signal<Look>({ x: 0, y: 0, scale: 1 });
  readonly isNarrow = signal(false);
  /** Until a person moves it, the picture is fitted whenever it or its frame changes. */
  private isMoved = false;
  private frame: Size = { width: 0, height: 0 };
  private picture: Size = { width: 0, height: 0 };

  setFrame(frame: Size): void {
    this.frame = frame;
    this.isNarrow.value = frame.width > 0 && frame.width < NARROW;
    if (!this.isMoved) this.fit();
  }

  setPicture(picture: Size): void {
    this.picture = picture;
    if (!this.isMoved) this.fit();
  }

  /** All of it, in the middle; where that would be too small, its beginning. */
  fit(): void {
    this.isMoved = false;
    const { frame, picture } = this;
    if (frame.width === 0 || picture.width === 0) return;
    const whole = Math.min(frame.width / picture.width, frame.height / picture.height, 1);
    const scale = Math.max(whole, FIT_MIN);
    this.look.value = {
      x: Math.max(0, (frame.width - picture.width * scale) / 2),
      y: Math.max(0, (frame.height - picture.height * scale) / 2),
      scale,
    };
  }

  pan(dx: number, dy: number): void {
    this.isMoved = true;
    const { x, y, scale } = this.look.value;
    this.look.value = { x: x + dx, y: y + dy, scale };
  }

  /** Larger or smaller, with what is at a point of the frame staying there; without one, the middle. */
  zoom(factor: number, at = { x: this.frame.width / 2, y: this.frame.height / 2 }): void {
    this.isMoved = true;
    const { x, y, scale } = this.look.value;
    const next = Math.min(SCALE_MAX, Math.max(SCALE_MIN, scale * factor));
    const ratio = next / scale;
    this.look.value = { x: at.x - (at.x - x) * ratio, y: at.y - (at.y - y) * ratio, scale: next };
  }

  /** Brings a part of the picture into the frame if it is not there. */
  reveal(part: { x: number; y: number } & Size): void {
    const { x, y, scale } = this.look.value;
    const [left, top] = [x + part.x * scale, y + part.y * scale];
    const isSeen = left >= 0 && top >= 0 && left + part.width * scale <= this.frame.width && top + Math.min(part.height * scale, 60) <= this.frame.height;
    if (isSeen || this.frame.width === 0) return;
    this.isMoved = true;
    this.look.value = { x: x - left + Math.max(12, (this.frame.width - part.width * scale) / 2), y: y - top + 24, scale };
  }
}
