// The official verifier of Standard Webhooks: it must accept each request, and none with a bit
// flipped in its body, id or time. Prints how many it accepted, and how many flipped ones it refused.
const fs = require("fs");
const { Webhook } = require("standardwebhooks");

const { secret, cases } = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const webhook = new Webhook(secret);
let accepted = 0, refused = 0;

function verifies(body, headers) {
    try {
        webhook.verify(body, headers, { jsonParse: false });
        return true;
    } catch (error) {
        return false;
    }
}

function flipped(bytes, bit) {
    const copy = Buffer.from(bytes);
    copy[bit >> 3] ^= 1 << (bit & 7);
    return copy;
}

function mustRefuse(body, headers, what) {
    if (verifies(body, headers))
        throw new Error("accepted with " + what + " flipped");
    refused++;
}

for (const { headers, body } of cases) {
    const bytes = Buffer.from(body, "hex");
    const text = bytes.toString("utf8");
    if (!verifies(text, headers))
        throw new Error("refused: " + JSON.stringify(headers));
    accepted++;
    for (let bit = 0; bit < Math.min(8 * bytes.length, 400); bit++) {
        const other = flipped(bytes, bit).toString("utf8");
        if (other !== text)
            mustRefuse(other, headers, "bit " + bit + " of the body");
    }
    for (const name of ["webhook-id", "webhook-timestamp"]) {
        const value = Buffer.from(headers[name], "latin1");
        for (let bit = 0; bit < 8 * value.length; bit++)
            mustRefuse(text, { ...headers, [name]: flipped(value, bit).toString("latin1") },
                       "bit " + bit + " of " + name);
    }
}
console.log(accepted + " " + refused);
