// The tabs of what is open, as handles above the views, and a menu of all of them where they do not fit.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { titlesOf } from "../state/tab-titles";
import { type Route, type Tab, activeAddress, close, tabs } from "../state/tabs";
import { isUnsaved } from "../state/unsaved";
import { confirmGivingUp } from "./dialog";
import { Icon, type IconName } from "./icon";
import { Menu } from "./menu";

const ICONS: Record<Route["kind"], IconName> = {
  database: "database", users: "users", items: "items", query: "query", feed: "feed", settings: "settings",
  script: "script", metrics: "metrics", nodes: "nodes", model: "model", roles: "users",
};

const HINTS = { metrics: "Metrics of the server", nodes: "Nodes of the store", roles: "Roles of Entra ID principals" } as const;

function hintOf(route: Route): string {
  if (!("database" in route)) return HINTS[route.kind];
  return "container" in route ? `${route.database} / ${route.container}` : route.database;
}

/** Ids that tie a tab and its panel together for assistive technology. */
export const tabId = (address: string) => `tab ${address}`.replaceAll(" ", "-");
export const panelId = (address: string) => `panel ${address}`.replaceAll(" ", "-");

function shut(tab: Tab, title: string): void {
  if (isUnsaved(tab.address)) confirmGivingUp(`${title} holds changes that are not saved.`, () => close(tab.address));
  else close(tab.address);
}

export function TabStrip() {
  const list = useRef<HTMLDivElement>(null);
  const isOverflowing = useSignal(false);
  const measure = () => {
    const element = list.current;
    if (element) isOverflowing.value = element.scrollWidth > element.clientWidth + 1;
  };
  useEffect(() => {
    if (!list.current) return;
    const observer = new ResizeObserver(measure);
    observer.observe(list.current);
    return () => observer.disconnect();
  }, [tabs.value.length > 0]);
  useEffect(measure, [tabs.value]);

  const focusNeighbour = (event: KeyboardEvent) => {
    const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")];
    const at = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    all[next % all.length]!.focus();
  };
  if (tabs.value.length === 0) return null;
  const titles = titlesOf(tabs.value.map(({ route }) => route));
  return (
    <div class="tabstrip">
      <div class="tablist" role="tablist" aria-label="Open tabs" ref={list} onKeyDown={focusNeighbour}>
        {tabs.value.map((tab, index) => <TabHandle key={tab.address} tab={tab} title={titles[index]!} isFirst={index === 0} isOverflowing={isOverflowing.value} />)}
      </div>
      {isOverflowing.value && (
        <Menu label="All tabs" icon="chevron" isQuiet>
          {(dismiss) => tabs.value.map((tab, index) => (
            <button type="button" class="menu-row" key={tab.address} onClick={() => {
              activeAddress.value = tab.address;
              dismiss();
            }}>
              <span>{titles[index]}</span><span class="muted">{hintOf(tab.route)}</span>
            </button>
          ))}
        </Menu>
      )}
    </div>
  );
}

function TabHandle({ tab, title, isFirst, isOverflowing }: { tab: Tab; title: string; isFirst: boolean; isOverflowing: boolean }) {
  const isActive = tab.address === activeAddress.value;
  const handle = useRef<HTMLButtonElement>(null);
  // Also when the menu of all tabs appears, which takes room from them.
  useEffect(() => {
    if (isActive) handle.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [isActive, isOverflowing, title]);
  const isReachable = isActive || (activeAddress.value === null && isFirst);
  return (
    <button
      ref={handle} type="button" role="tab" id={tabId(tab.address)} class={isActive ? "tab active" : "tab"}
      aria-selected={isActive} aria-controls={isActive ? panelId(tab.address) : undefined} aria-keyshortcuts="Delete"
      tabIndex={isReachable ? 0 : -1} title={hintOf(tab.route)}
      onClick={() => (activeAddress.value = tab.address)}
      onAuxClick={(event) => event.button === 1 && shut(tab, title)}
      onKeyDown={(event) => event.key === "Delete" && shut(tab, title)}
    >
      <Icon name={ICONS[tab.route.kind]} size={13} /><span class="tab-title">{title}</span>
      {/* A tab may hold no other control: this one is for the pointer, the key Delete does the same. */}
      <span class="tab-close" title={`Close ${title} (Delete)`} aria-hidden="true" onClick={(event) => {
        event.stopPropagation();
        shut(tab, title);
      }}><Icon name="close" size={11} /></span>
    </button>
  );
}
