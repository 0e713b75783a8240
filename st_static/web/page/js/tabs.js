/** Tabs that the arrow keys, Home and End move between. */

/**
 * @param {HTMLElement} list The element with the role tablist.
 */
export function startTabs(list) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const places = {
    ArrowRight: (place) => (place + 1) % tabs.length,
    ArrowLeft: (place) => (place + tabs.length - 1) % tabs.length,
    Home: () => 0,
    End: () => tabs.length - 1,
  };
  for (const tab of tabs) tab.addEventListener("click", () => select(tabs, tab));
  list.addEventListener("keydown", (event) => {
    const next = places[event.key];
    if (!next) return;
    event.preventDefault();
    const tab = tabs[next(tabs.indexOf(document.activeElement))];
    select(tabs, tab);
    tab.focus();
  });
  select(tabs, tabs[0]);
}

function select(tabs, selected) {
  for (const tab of tabs) {
    const isSelected = tab === selected;
    tab.setAttribute("aria-selected", String(isSelected));
    tab.tabIndex = isSelected ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !isSelected;
  }
}
