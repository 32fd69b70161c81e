// Values stored in this browser: unsent messages and drafts. Kept in memory where storage is full or disabled.

const fallback = new Map();

export function load(key) {
  try {
    return JSON.parse(localStorage.getItem(`hermes.${key}`)) ?? fallback.get(key) ?? null;
  } catch {
    return fallback.get(key) ?? null;
  }
}

export function save(key, value) {
  try {
    localStorage.setItem(`hermes.${key}`, JSON.stringify(value));
    fallback.delete(key);
  } catch {
    fallback.set(key, value); // full or disabled
  }
}

export function forget(key) {
  fallback.delete(key);
  try {
    localStorage.removeItem(`hermes.${key}`);
  } catch {
    // disabled: there is nothing to forget
  }
}

export function keysUnder(prefix) {
  const found = new Set([...fallback.keys()].filter((key) => key.startsWith(prefix)));
  try {
    for (let index = 0; index < localStorage.length; index++) {
      const key = localStorage.key(index);
      if (key.startsWith(`hermes.${prefix}`)) found.add(key.slice("hermes.".length));
    }
  } catch {
    // disabled
  }
  return [...found];
}
