// A new idempotent producer of kafkajs that sends a message: SERVERS USER PASSWORD TOPIC MODE.
//
// Modes: "once" connects with default settings, "retries" with a thousand retries in both places that take the setting,
// "again" connects until it works, "anyway" sends although it could not connect. Lines: "failed" and the error's name, and
// "delivered" and when, in milliseconds since the epoch.
const { Kafka, logLevel } = require('kafkajs')

const [servers, username, password, topic, mode] = process.argv.slice(2)
const settings = mode === 'retries' ? { retry: { retries: 1000, maxRetryTime: 1000 } } : {}
const kafka = new Kafka({
  brokers: servers.split(','),
  sasl: { mechanism: 'plain', username, password },
  logLevel: logLevel.NOTHING,
  ...settings,
})
const producer = kafka.producer({ idempotent: true, ...settings })

async function connected() {
  try {
    await producer.connect()
    return true
  } catch (error) {
    console.log('failed', error.name)
    return false
  }
}

async function main() {
  let isOpen = await connected()
  while (!isOpen && mode === 'again') {
    isOpen = await connected()
  }
  if (isOpen || mode === 'anyway') {
    await producer.send({ topic, messages: [{ value: 'waited' }] })
    console.log('delivered', Date.now())
  }
  await producer.disconnect()
}

main()
