"""What the models of groups have in common whose coordinator assigns, and whose members follow: a consumer group's
(KIP-848), and a streams group's (KIP-1071). See docs/testing/model.md."""
