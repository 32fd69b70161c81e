// Which addresses may be followed: web pages, mail, and our own stored files. Nothing else, however it is spelled.

const FOLLOWED = new Set(["http:", "https:", "mailto:"]);
const MEDIA = /^\/media\/[0-9a-f]{64}(?:\?[\w%=&.~-]*)?$/;

/** The address to use as a link, or null. The browser's own parser decides, as it would when it is followed. */
export function safeLink(target) {
  try {
    const address = new URL(target);
    return FOLLOWED.has(address.protocol) ? address.href : null;
  } catch {
    return ownMedia(target); // relative
  }
}

/** The path of a file of ours, or null for anything elsewhere. */
export function ownMedia(target) {
  return typeof target === "string" && MEDIA.test(target) ? target : null;
}
