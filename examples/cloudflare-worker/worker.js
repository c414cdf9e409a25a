// A Cloudflare Email Worker that hands each mail to mailonce, signed, while the sender waits.
//
// MAILONCE_URL     https://mailonce.example.com/in/SOURCE
// MAILONCE_SECRET  the source's `secret`
// FALLBACK         optional: a verified address that gets the mail where mailonce does not take it

const SCHEME = "mailonce-mail/1";
const TOO_LARGE = 413;

export default {
  async email(message, env) {
    // The signature goes first and covers the body, so the mail is read whole; it has 25 MiB at most.
    const body = new Uint8Array(await new Response(message.raw).arrayBuffer());
    const headers = await signed(message, body, env.MAILONCE_SECRET);
    let reason;
    try {
      const response = await fetch(env.MAILONCE_URL, { method: "POST", headers, body, redirect: "manual" });
      if (response.ok) return;
      reason = `mailonce answered ${response.status}`;
      if (response.status === TOO_LARGE) {
        message.setReject("552 5.3.4 the message is too large");
        return;
      }
    } catch (error) {
      reason = `mailonce could not be reached: ${error.message}`;
    }
    if (env.FALLBACK) {
      await message.forward(env.FALLBACK);
      return;
    }
    // Never setReject here: it is final, and this may pass. An exception is a temporary failure, after
    // which the sender's server tries again.
    throw new Error(reason);
  },
};

async function signed(message, body, secret) {
  const timestamp = String(Math.floor(Date.now() / 1000));
  const mailFrom = encodeURIComponent(message.from ?? "");
  const recipient = encodeURIComponent(message.to ?? "");
  const digest = hex(await crypto.subtle.digest("SHA-256", body));
  const text = [SCHEME, timestamp, mailFrom, recipient, digest].join("\n");
  const encoder = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", encoder.encode(secret), algorithm, false, ["sign"]);
  return {
    "Content-Type": "message/rfc822",
    "X-Mailonce-Timestamp": timestamp,
    "X-Mailonce-Mail-From": mailFrom,
    "X-Mailonce-Recipient": recipient,
    "X-Mailonce-Signature": hex(await crypto.subtle.sign("HMAC", key, encoder.encode(text))),
  };
}

function hex(buffer) {
  return [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
