// SERVERS USER PASSWORD TOPIC CLIENT_ID COUNT: so many make a producer per message; prints their counts of deliveries.
const { Kafka, logLevel } = require('kafkajs')

const [brokers, username, password, topic, clientId, count] = process.argv.slice(2)
const delivered = new Array(Number(count)).fill(0)
const kafka = new Kafka({
  brokers: [brokers], clientId, sasl: { mechanism: 'plain', username, password }, logLevel: logLevel.NOTHING,
})

async function run(number) {
  for (;;) {
    const producer = kafka.producer({ idempotent: true })
    try {
      await producer.connect()
      await producer.send({ topic, messages: [{ value: 'one order' }] })
      delivered[number] += 1
    } catch (error) {
      console.log('failed', error.name)
    }
    await producer.disconnect()
  }
}

delivered.forEach((_, number) => run(number))
setInterval(() => console.log(JSON.stringify(delivered)), 50)
