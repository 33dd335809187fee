// Forth and back over pages, and how many rows one holds.
import type { Paging } from "../state/paging";
import { nextPage, previousPage } from "../state/paging";
import { pageSize } from "../state/preferences";
import { Icon } from "./icon";

const PAGE_SIZES = [20, 100, 500, 1000];

interface Props {
  paging: Paging;
  count: number;
  /** How many rows there are in all, where that is known. */
  total?: number | null;
  isLoading: boolean;
  onGo: (paging: Paging) => void;
}

export function Pager({ paging, count, total = null, isLoading, onGo }: Props) {
  const first = paging.index * pageSize.value + 1;
  return (
    <div class="pager">
      <span class="muted">{count === 0 ? "" : `${first.toLocaleString("en")}–${(first + count - 1).toLocaleString("en")}${total === null ? "" : ` of ${total.toLocaleString("en")}`}`}{isLoading && " …"}</span>
      <span class="grow" />
      <label class="inline muted">
        <select aria-label="Rows on a page" value={pageSize.value} onChange={(event) => (pageSize.value = Number(event.currentTarget.value))}>
          {PAGE_SIZES.map((size) => <option key={size} value={size}>{size}</option>)}
        </select>
        per page
      </label>
      <button type="button" class="quiet" aria-label="Previous page" disabled={paging.index === 0} onClick={() => onGo(previousPage(paging))}><Icon name="left" /></button>
      <span>{paging.index + 1}</span>
      <button type="button" class="quiet" aria-label="Next page" disabled={paging.isLast} onClick={() => onGo(nextPage(paging))}><Icon name="right" /></button>
    </div>
  );
}
