// Formats times as people say them, in the reader's language and time zone.

import { el } from "./dom.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long" });
const shortWeekday = new Intl.DateTimeFormat(undefined, { weekday: "short" });
const date = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const shortDate = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

const midnight = (ms) => new Date(ms).setHours(0, 0, 0, 0);

/** Return calendar days between then and now; rounded, because a day with a clock change has not 24 hours. */
const daysAgo = (ms) => Math.round((midnight(Date.now()) - midnight(ms)) / 86_400_000);

export const isSameDay = (a, b) => midnight(a) === midnight(b);

export function dayName(ms) {
  const days = daysAgo(ms);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  return days > 1 && days < 7 ? weekday.format(ms) : date.format(ms);
}

/** Return the time for a narrow list: "now", "14:05", "Mon" or "3 Jan". */
export function shortTime(ms) {
  const days = daysAgo(ms);
  if (days <= 0) return Date.now() - ms < 60_000 ? "now" : clock.format(ms);
  return days < 7 ? shortWeekday.format(ms) : shortDate.format(ms);
}

/** Return the heading of the list of chats under which a time belongs. */
export function periodOf(ms) {
  const days = daysAgo(ms);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return days < 7 ? "This week" : days < 31 ? "This month" : "Earlier";
}

/** Build a time element with the exact time as its tooltip. */
export function timeView(ms, text = clock.format(ms)) {
  return el("time", { datetime: new Date(ms).toISOString(), title: full.format(ms) }, text);
}
