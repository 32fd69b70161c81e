// An editor built with the official TypeScript SDK: node editor.mjs SDK FOLDER SERVER COMMAND... prints what it was
// shown. SERVER is an MCP server as JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, cwd, server, command, ...args] = process.argv.slice(2);
const acp = await import(sdk);
const { session, initialize } = acp.methods.agent;
const report = { asked: [], stops: [] };
const answers = ["reject_once", "allow_once"];

async function open(work) {
  const shown = [];
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  let onUpdate = () => {};
  const editor = acp
    .client({ name: "test" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      report.asked.push(params.toolCall);
      const wanted = answers.shift();
      const { optionId } = params.options.find((one) => one.kind === wanted);
      return { outcome: { outcome: "selected", optionId } };
    })
    .onNotification(acp.methods.client.session.update, ({ params }) => {
      shown.push(params.update);
      onUpdate(params.update);
    });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await editor.connectWith(stream, async (agent) => {
    const about = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} };
    report.can = (await agent.request(initialize, about)).agentCapabilities;
    const ask = async (sessionId, text) => {
      const prompt = [{ type: "text", text }];
      report.stops.push((await agent.request(session.prompt, { sessionId, prompt })).stopReason);
    };
    await work(agent, ask, (listener) => (onUpdate = listener), child);
  });
  child.stdin.destroy();
  await ended;
  return shown;
}

let sessionId;
report.first = await open(async (agent, ask, watch, child) => {
  ({ sessionId } = await agent.request(session.new, { cwd, mcpServers: [] }));
  await ask(sessionId, "more bread");
  await ask(sessionId, "write the hook");
  await ask(sessionId, "do write it");
  watch((update) => {
    if (update.toolCallId === "c3" && update.status === "in_progress") agent.notify(session.cancel, { sessionId });
  });
  await ask(sessionId, "wait");
  child.kill("SIGKILL");
});
report.second = await open(async (agent, ask) => {
  await agent.request(session.load, { sessionId, cwd, mcpServers: [] });
  await agent.request(session.resume, { sessionId, cwd, mcpServers: [] });
  await ask(sessionId, "are you there?");
  report.listed = (await agent.request(session.list, { cwd })).sessions;
  await agent.request(session.close, { sessionId });
  ({ sessionId } = await agent.request(session.new, { cwd, mcpServers: [JSON.parse(server)] }));
  await ask(sessionId, "use the server");
});
console.log(JSON.stringify(report));
