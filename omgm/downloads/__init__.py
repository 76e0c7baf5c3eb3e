"""Everything that is fetched over the network before it is used: models from the hub, images of a knowledge base."""
